package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// meeting gives the processes of a test a place of their own.
func meeting(t *testing.T) (dir string) {
	t.Helper()
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	return t.TempDir()
}

// ended waits for a process, and wants its exit code.
func ended(t *testing.T, cmd *exec.Cmd, code int, says *bytes.Buffer) {
	t.Helper()
	_ = awaitEnd(t, cmd)
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%v: exit code %d, want %d: %s", cmd.Args[1:], got, code, says)
	}
}

// The samples that are pairs, as two processes, in both orders where a peer
// that is not there yet is waited for.
func TestSamplePairsAsProcesses(t *testing.T) {
	for _, p := range []struct {
		first, second string
		args          []string
		says          string // by the second
	}{
		{"dma_copy_host", "dma_copy_dpu", nil, `copied 30 bytes: "This is a sample piece of text"`},
		{"dma_copy_dpu", "dma_copy_host", nil, "the DPU has copied"},
		{"comch_ctrl_path_server", "comch_ctrl_path_client", nil, `received "Message from the server"`},
		{"comch_data_path_high_speed_server", "comch_data_path_high_speed_client", nil, `: "Message from the server"`},
		{"comch_data_path_high_speed_client", "comch_data_path_high_speed_server", []string{"-size", "1048576"}, `: "Message from the client`},
		{"sync_event_remote_pci", "sync_event_local_pci", nil, "the other process has signalled"},
		{"sync_event_remote_pci", "sync_event_local_pci", []string{"-async", "-atomic"}, "the other process has signalled"},
	} {
		t.Run(p.first+strings.Join(p.args, ""), func(t *testing.T) {
			dir := meeting(t)
			if strings.HasPrefix(p.first, "dma") {
				p.args = []string{"-d", filepath.Join(dir, "d"), "-b", filepath.Join(dir, "b")}
			}
			first, story, firstSays := program(t, append([]string{"sample", p.first}, p.args...)...)
			for end := time.Now().Add(20 * time.Second); ; {
				second, out, says := program(t, append([]string{"sample", p.second}, p.args...)...)
				_ = awaitEnd(t, second)
				if strings.Contains(says.String(), "first: ") && time.Now().Before(end) {
					continue // the server is not there yet
				}
				if code := second.ProcessState.ExitCode(); code != exitGood || !strings.Contains(out.String(), p.says) {
					t.Errorf("%s: exit code %d, got %q and %q, want %q", p.second, code, out, says, p.says)
				}
				break
			}
			ended(t, first, exitGood, firstSays)
			if !strings.Contains(story.String(), p.first+": good") {
				t.Errorf("%s: got %q", p.first, story)
			}
		})
	}
}

// A sample whose peer does not come fails in time and names it, also where the
// result is asked for as JSON.
func TestSampleOfAPairAloneAsProcess(t *testing.T) {
	for alone, missing := range map[string]string{
		"dma_copy_dpu":                      "dma_copy_host",
		"comch_ctrl_path_client":            "comch_ctrl_path_server",
		"comch_data_path_high_speed_server": "comch_data_path_high_speed_client",
		"comch_data_path_high_speed_client": "comch_data_path_high_speed_server",
		"sync_event_local_pci":              "sync_event_remote_pci",
	} {
		t.Run(alone, func(t *testing.T) {
			args := []string{"sample", alone, "--json", "-wait", "100ms"}
			if dir := meeting(t); strings.HasPrefix(alone, "dma") {
				args = append(args, "-d", filepath.Join(dir, "d"), "-b", filepath.Join(dir, "b"))
			}
			cmd, out, says := program(t, args...)
			ended(t, cmd, exitFailed, says)
			if !strings.Contains(says.String(), "start "+missing) || !strings.Contains(out.String(), `"ok": false`) {
				t.Errorf("got %q and %q, want that %s is to be started", out, says, missing)
			}
		})
	}
}

// copying starts a copy of a file that has no end in sight, and returns both
// sides when it is under way.
func copying(t *testing.T, dir, sender, receiver string) (src, dst *exec.Cmd, srcSays, dstSays *bytes.Buffer) {
	t.Helper()
	from := filepath.Join(dir, "from", "file")
	for _, sub := range []string{"from", "to"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(from, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(from, 1<<40); err != nil {
		t.Skipf("a file with a hole of 1 TiB cannot be made here: %v", err)
	}
	src, _, srcSays = program(t, "dma-copy", "--side", sender, "-f", from)
	dst, _, dstSays = program(t, "dma-copy", "--side", receiver, "-f", filepath.Join(dir, "to", "file"))
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(20 * time.Second); partSize(dir) < 8<<20; <-look.C {
		if time.Now().After(end) {
			t.Fatalf("nothing is copied: %s, %s", srcSays, dstSays)
		}
	}
	return src, dst, srcSays, dstSays
}

// partSize returns the size of the file that is being made, 0 without one.
func partSize(dir string) int64 {
	parts, _ := filepath.Glob(filepath.Join(dir, "to", ".gantry-copy-*"))
	for _, p := range parts {
		if info, err := os.Stat(p); err == nil {
			return info.Size()
		}
	}
	return 0
}

// Whoever is killed, and whichever way the file goes: the other side says what
// happened and leaves nothing.
func TestDMACopyPeerIsKilled(t *testing.T) {
	for _, sender := range []string{"host", "dpu"} {
		receiver := map[string]string{"host": "dpu", "dpu": "host"}[sender]
		for _, victim := range []string{sender, receiver} {
			t.Run(sender+" sends, kill "+victim, func(t *testing.T) {
				dir := meeting(t)
				src, dst, srcSays, dstSays := copying(t, dir, sender, receiver)
				dies, stays, says := src, dst, dstSays
				if victim == receiver {
					dies, stays, says = dst, src, srcSays
				}
				if err := dies.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				ended(t, stays, exitFailed, says)
				if !strings.Contains(says.String(), "the other side ended before the copy was complete") {
					t.Errorf("got %q", says)
				}
				_ = awaitEnd(t, dies)
				wantNoTarget(t, dir, victim == sender)
			})
		}
	}
}

// Ctrl-C on one side ends both, with a word.
func TestDMACopyIsInterrupted(t *testing.T) {
	for _, victim := range []string{"host", "dpu"} {
		t.Run(victim, func(t *testing.T) {
			dir := meeting(t)
			src, dst, srcSays, dstSays := copying(t, dir, "host", "dpu")
			stops, says, stays, staysSays := src, srcSays, dst, dstSays
			if victim == "dpu" {
				stops, says, stays, staysSays = dst, dstSays, src, srcSays
			}
			if err := stops.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			ended(t, stops, exitFailed, says)
			ended(t, stays, exitFailed, staysSays)
			if !strings.Contains(says.String(), "interrupted: gantry dma-copy did not finish") ||
				!strings.Contains(staysSays.String(), "the other side gave up: it was interrupted") {
				t.Errorf("got %q and %q", says, staysSays)
			}
			wantNoTarget(t, dir, true)
		})
	}
}

// wantNoTarget wants no file, and no part of one if the sink lived to remove it.
func wantNoTarget(t *testing.T, dir string, clean bool) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "to"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if clean || e.Name() == "file" {
			t.Errorf("%s was left", e.Name())
		}
	}
}
