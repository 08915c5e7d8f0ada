package samples_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// otherVariable makes this test program the sample of that name.
const otherVariable = "GANTRY_TEST_OTHER_SAMPLE"

// TestOther is the other process. It is never at its end.
func TestOther(t *testing.T) {
	name := os.Getenv(otherVariable)
	if name == "" {
		t.Skip("it is for TestTheOtherProcessStandsStill")
	}
	_, err := byName(t, name).Run(nil, os.Stdout, os.Stdout)
	t.Errorf("it did not stand still: %v", err)
}

// A stopper is where a sample tells its story. When it says the words, the other
// process stands still before the sample does anything more.
type stopper struct {
	*testing.T
	words string
	other *os.Process
}

func (s *stopper) Write(b []byte) (int, error) {
	if s.words != "" && strings.Contains(string(b), s.words) {
		s.words = ""
		child.Stop(s, s.other)
	}
	return s.Output().Write(b)
}

// A sample whose other process stands still gives up when its time is over, and
// does not wait for an answer to its goodbye.
func TestTheOtherProcessStandsStill(t *testing.T) {
	for _, c := range []struct {
		name, other, at string
		want            []error // any of these
	}{
		{pathClient, pathServer, "sent 23 bytes", []error{core.ErrTimeOut}},                               // so it never hears of the client's consumer
		{pathServer, pathClient, "received \"start_data_path_test\"", []error{core.ErrTimeOut}},           // nor that of the server's
		{pathServer, pathClient, "consumer 1 waits", []error{core.ErrTimeOut, core.ErrConnectionAborted}}, // which has posted a receive; a message may have come
		{"comch_ctrl_path_server", "comch_ctrl_path_client", "received ", []error{core.ErrConnectionAborted}},
		{"sync_event_local_pci", "sync_event_remote_pci", "the export", []error{core.ErrTimeOut}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(meeting(t, c.name), "-wait", "500ms")
			other := child.Command(t, os.Args[0], "-test.run=^TestOther$")
			other.Env = append(os.Environ(), otherVariable+"="+c.other)
			var told strings.Builder
			other.Stdout = &told
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			story := &stopper{T: t, words: c.at, other: other.Process}
			done := make(chan error, 1)
			go func() {
				_, err := runUntilThere(byName(t, c.name), args, story)
				done <- err
			}()
			select {
			case err := <-done:
				if !slices.ContainsFunc(c.want, func(want error) bool { return errors.Is(err, want) }) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			case <-time.After(20 * time.Second):
				t.Error("it did not end in 20 seconds")
			}
			_ = other.Process.Kill()
			if err := other.Wait(); err == nil || other.ProcessState.Exited() || story.words != "" {
				t.Errorf("the other process ended by itself, or did not stand still: %v: %s", err, told.String())
			}
		})
	}
}
