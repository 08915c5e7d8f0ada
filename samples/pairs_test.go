package samples_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples"
)

// byName returns a sample.
func byName(t *testing.T, name string) samples.Sample {
	t.Helper()
	i := slices.IndexFunc(samples.List(), func(s samples.Sample) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no sample %s", name)
	}
	return samples.List()[i]
}

// pairs are the samples of two processes, each in the order in which to start
// them, with arguments for both and their results.
var pairs = []struct {
	first, second samples.Result
	args          []string // of both
	anyOrder      bool
}{
	{first: pairOf("dma_copy_host", 0), second: pairOf("dma_copy_dpu", 1, life...), anyOrder: true},
	{first: pairOf("comch_ctrl_path_server", 1, life...), second: pairOf("comch_ctrl_path_client", 1, slow...)},
	{first: pairOf(pathServer, 4, serverLife...), second: pairOf(pathClient, 4, clientLife...), anyOrder: true},
	{first: pairOf(pathServer, 4, serverLife...), second: pairOf(pathClient, 4, clientLife...), args: []string{"-size", "1048576"}},
	{first: pairOf("sync_event_remote_pci", 0), second: pairOf("sync_event_local_pci", 0)},
	{first: pairOf("sync_event_remote_pci", 0), second: pairOf("sync_event_local_pci", 0), args: []string{"-atomic"}},
	{first: pairOf("sync_event_remote_pci", 2, life...), second: pairOf("sync_event_local_pci", 2, life...), args: []string{"-async", "-async_num_tasks", "3"}},
	{first: pairOf("sync_event_remote_pci", 2, life...), second: pairOf("sync_event_local_pci", 2, life...), args: []string{"-async", "-atomic"}},
}

// slow is what the state callback of an asynchronous start sees.
var slow = []string{"idle>starting", "starting>running", "running>stopping", "stopping>idle"}

// The samples of the data path, and what their state callbacks see: the control
// path, and within it first the one half of the data path and then the other.
const (
	pathServer = "comch_data_path_high_speed_server"
	pathClient = "comch_data_path_high_speed_client"
)

var (
	serverLife = slices.Concat(life[:1], slow, life, life[1:])
	clientLife = slices.Concat(slow[:2], life, slow, slow[2:])
)

func pairOf(name string, tasks int, states ...string) samples.Result {
	r := samples.Result{Name: name, OK: true, Tasks: tasks, Completed: tasks, States: states}
	if states == nil {
		r.States = []string{}
	}
	return r
}

// meeting gives the samples of a test a place where nobody else comes, and
// returns the arguments that dma_copy needs for the same.
func meeting(t *testing.T, name string) []string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(dir, "run"))
	if !strings.HasPrefix(name, "dma_copy") {
		return nil
	}
	return []string{"-d", filepath.Join(dir, "descriptor"), "-b", filepath.Join(dir, "buffer")}
}

// A teller is where a sample that runs beside the test tells its story; heard
// is closed when it has said the words.
type teller struct {
	bytes.Buffer
	words string
	heard chan struct{}
}

func (w *teller) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if w.words != "" && strings.Contains(w.String(), w.words) {
		w.words = ""
		close(w.heard)
	}
	return n, err
}

// Both sides in one process: what they say and count is the same as in two.
func TestPairs(t *testing.T) {
	for _, p := range pairs {
		orders := [][2]samples.Result{{p.first, p.second}}
		if p.anyOrder {
			orders = append(orders, [2]samples.Result{p.second, p.first})
		}
		for _, o := range orders {
			t.Run(o[0].Name+strings.Join(p.args, ""), func(t *testing.T) {
				args := append(meeting(t, o[0].Name), p.args...)
				a, b := byName(t, o[0].Name), byName(t, o[1].Name)
				if a.Peer != b.Name || b.Peer != a.Name {
					t.Errorf("the peers of %s and %s are %s and %s", a.Name, b.Name, a.Peer, b.Peer)
				}
				story := &teller{words: "\n", heard: make(chan struct{})} // then it waits, or soon will
				if o[0].Name == "comch_ctrl_path_server" || o[0].Name == "sync_event_remote_pci" || o[0].Name == pathServer {
					story.words = "wait"
				}
				done := make(chan error, 1)
				var first samples.Result
				go func() {
					var err error
					first, err = a.Run(args, story, &bytes.Buffer{})
					done <- err
				}()
				<-story.heard
				second, err := runUntilThere(b, args, t.Output())
				if err != nil {
					t.Errorf("%s: %v", b.Name, err)
				}
				if err := <-done; err != nil {
					t.Errorf("%s: %v", a.Name, err)
				}
				if d := cmp.Diff(o[0], first); d != "" {
					t.Errorf("%s (-want +got):\n%s%s", a.Name, d, story)
				}
				if d := cmp.Diff(o[1], second); d != "" {
					t.Errorf("%s (-want +got):\n%s", b.Name, d)
				}
			})
		}
	}
}

// runUntilThere runs a client again as long as it finds no server: that one has
// said that it waits, a moment before it does.
func runUntilThere(s samples.Sample, args []string, out io.Writer) (r samples.Result, err error) {
	for begin := time.Now(); ; {
		if r, err = s.Run(args, out, out); !errors.Is(err, core.ErrNotFound) || time.Since(begin) > 10*time.Second {
			return r, err
		}
	}
}

// A sample of a pair that is alone says which one is missing, in time.
func TestPeerThatIsMissing(t *testing.T) {
	for name, says := range map[string]string{
		"dma_copy_host":          "is dma_copy_dpu running",
		"dma_copy_dpu":           "start dma_copy_host",
		"comch_ctrl_path_server": "no client came",
		"comch_ctrl_path_client": "start comch_ctrl_path_server first",
		pathServer:               "start " + pathClient,
		pathClient:               "start " + pathServer,
		"sync_event_remote_pci":  "sync_event_local_pci did not come in 50ms",
		"sync_event_local_pci":   "start sync_event_remote_pci first",
	} {
		t.Run(name, func(t *testing.T) {
			args := append(meeting(t, name), "-wait", "50ms")
			r, err := byName(t, name).Run(args, t.Output(), t.Output())
			if err == nil || r.OK || !strings.Contains(err.Error(), says) {
				t.Errorf("got %+v, %v, want %q", r, err, says)
			}
			if !errors.Is(err, core.ErrTimeOut) && !errors.Is(err, core.ErrNotFound) {
				t.Errorf("the code of %v", err)
			}
			for i := 1; i < len(args) && strings.HasPrefix(name, "dma"); i += 2 {
				if _, err := os.Stat(args[i]); err == nil {
					t.Errorf("%s was left behind", args[i])
				}
			}
		})
	}
}

func TestPairsHaveHelpAndRefuseWrongUsage(t *testing.T) {
	for _, s := range samples.List() {
		if s.Peer == "" {
			continue
		}
		var out bytes.Buffer
		if _, err := s.Run([]string{"-h"}, &out, t.Output()); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		for _, want := range []string{"two terminals", "gantry sample " + s.Name, "gantry sample " + s.Peer, "-wait", "-pci-addr"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in %q", s.Name, want, &out)
			}
		}
		for _, args := range [][]string{{"--nonsense"}, {"-wait", "0s"}, {"-wait", "-1s"}, {"-p", "left"}, {"left over"}, {"-executor", "inline"}} {
			if _, err := s.Run(args, t.Output(), t.Output()); !errors.Is(err, samples.ErrUsage) {
				t.Errorf("%s %q: got %v, want %v", s.Name, args, err, samples.ErrUsage)
			}
		}
		if _, err := s.Run([]string{"-p", "80:00.1"}, t.Output(), t.Output()); err == nil || errors.Is(err, samples.ErrUsage) {
			t.Errorf("%s on a device of neither side: got %v", s.Name, err)
		}
	}
}
