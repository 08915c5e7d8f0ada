package samples_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// stillVariable makes this test program a sample that stands still as soon as it
// has said some words: the name, and these.
const stillVariable = "GANTRY_TEST_STANDS_STILL"

// A stopper stops this process when it has been told the words.
type stopper struct {
	told, words string
}

func (s *stopper) Write(b []byte) (int, error) {
	if s.told += string(b); strings.Contains(s.told, s.words) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {} // another thread may have taken the signal, and this one a moment
	}
	return len(b), nil
}

// TestStandsStill is the other process.
func TestStandsStill(t *testing.T) {
	name, words, is := strings.Cut(os.Getenv(stillVariable), "|")
	if !is {
		t.Skip("it is for TestTheOtherProcessStandsStill")
	}
	_, err := byName(t, name).Run(nil, &stopper{words: words}, io.Discard)
	t.Errorf("it did not stand still: %v", err)
}

// A sample whose other process stands still gives up when its time is over, and
// does not wait for an answer to its goodbye.
func TestTheOtherProcessStandsStill(t *testing.T) {
	for _, c := range []struct {
		name, other, at string
		want            error
	}{
		{pathClient, pathServer, "waits for a message", core.ErrTimeOut},               // so it never hears of the client's consumer
		{pathServer, pathClient, "received \"start_data_path_test\"", core.ErrTimeOut}, // the server's consumer has posted a receive
		{"comch_ctrl_path_server", "comch_ctrl_path_client", "sent ", core.ErrConnectionAborted},
		{"sync_event_local_pci", "sync_event_remote_pci", "waiting for 1", core.ErrTimeOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(meeting(t, c.name), "-wait", "500ms")
			other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStandsStill$")
			other.Env = append(os.Environ(), stillVariable+"="+c.other+"|"+c.at)
			var told strings.Builder
			other.Stdout = &told
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				begin := time.Now()
				_, err := byName(t, c.name).Run(args, t.Output(), t.Output())
				for errors.Is(err, core.ErrNotFound) && time.Since(begin) < 10*time.Second {
					_, err = byName(t, c.name).Run(args, io.Discard, io.Discard) // the other one was not there yet
				}
				done <- err
			}()
			select {
			case err := <-done:
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			case <-time.After(20 * time.Second):
				t.Error("it did not end in 20 seconds")
			}
			_ = other.Process.Kill()
			if err := other.Wait(); err == nil || other.ProcessState.Exited() {
				t.Errorf("the other process ended by itself: %v: %s", err, told.String())
			}
		})
	}
}
