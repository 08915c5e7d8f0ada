package samples_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/samples"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// executors are the ways in which every sample is run. In order means that the
// tasks are copied one after the other, so that an error always overtakes the
// same ones; inline, that nothing is copied ahead of the callbacks.
var executors = []struct {
	name    string
	args    []string
	inOrder bool
	inline  bool
}{
	{"default", nil, true, true},
	{"inline", []string{"--executor", "inline"}, true, true},
	{"tasklet", []string{"--executor", "tasklet"}, true, false},
	{"workqueue1", []string{"--executor=workqueue", "--workers=1"}, true, false},
	{"workqueue3", []string{"--executor=workqueue", "--workers=3"}, false, false},
}

// alone returns the samples that need no other process.
func alone() (list []samples.Sample) {
	for _, s := range samples.List() {
		if s.Peer == "" {
			list = append(list, s)
		}
	}
	return list
}

// life is what the state callback of one context sees.
var life = []string{"idle>running", "running>stopping", "stopping>idle"}

// wanted are the results in reading order, with OK set, on the inline
// executor. On the others a sample with open has a number of completions that
// depends on how far the copying was ahead: then least is the smallest, and all
// that did not complete was flushed.
var wanted = []struct {
	samples.Result
	open  bool
	least int
}{
	{Result: result("pe_polling", 16, 16, 0, 0)},
	{Result: result("pe_event", 16, 16, 0, 0)},
	{Result: result("pe_async_stop", 16, 8, 0, 8), open: true, least: 8},
	{Result: multi},
	{Result: result("pe_reactive", 16, 16, 0, 0)},
	{Result: result("pe_single_task_comp_cb", 16, 16, 0, 0)},
	{Result: result("pe_task_error", 255, 2, 1, 252)},
	{Result: result("pe_task_resubmit", 4, 16, 0, 0)},
	{Result: result("pe_task_try_submit", 16, 16, 0, 0)},
	{Result: result("dma_local_copy", 4, 4, 0, 0)},
}

func result(name string, tasks, completed, failed, flushed int) samples.Result {
	return samples.Result{Name: name, OK: true, Tasks: tasks,
		Completed: completed, Failed: failed, Flushed: flushed, States: life}
}

// multi starts all contexts before it stops them one by one.
var multi = func() samples.Result {
	r := result("pe_multi_context", 64, 64, 0, 0)
	r.States = []string{life[0], life[0], life[0], life[0]}
	for range 4 {
		r.States = append(r.States, life[1:]...)
	}
	return r
}()

func TestEverySampleOnEveryExecutor(t *testing.T) {
	list := alone()
	if len(list) != len(wanted) {
		t.Fatalf("%d samples, want %d", len(list), len(wanted))
	}
	for i, s := range list {
		for _, x := range executors {
			t.Run(s.Name+"/"+x.name, func(t *testing.T) {
				var errOut bytes.Buffer
				got, err := s.Run(x.args, t.Output(), &errOut)
				if err != nil || errOut.Len() > 0 {
					t.Errorf("error %v, on errOut %q", err, &errOut)
				}
				w := wanted[i]
				if w.open && !x.inline || w.Failed > 0 && !x.inOrder {
					if sum := got.Completed + got.Failed + got.Flushed; got.Completed < w.least || sum != w.Tasks {
						t.Errorf("%d completed and %d in all, want at least %d of %d", got.Completed, sum, w.least, w.Tasks)
					}
					w.Completed, w.Flushed = got.Completed, got.Flushed
				}
				if d := cmp.Diff(w.Result, got); d != "" {
					t.Errorf("result (-want +got):\n%s", d)
				}
			})
		}
	}
}

func TestListNamesGroupsAndSummaries(t *testing.T) {
	for i, s := range alone() {
		group := "progress engine"
		if s.Name == "dma_local_copy" {
			group = "dma"
		}
		if s.Name != wanted[i].Name || s.Group != group || s.Summary == "" || len(s.Summary) > 70 {
			t.Errorf("got %q in %q: %q, want %q in %q with one short line", s.Name, s.Group, s.Summary, wanted[i].Name, group)
		}
	}
}

// One wrong byte in one source, and the sample must say no. That byte is in
// the first task, which every sample copies before anything goes wrong.
func TestWrongContentsAreFound(t *testing.T) {
	for i, s := range alone() {
		t.Run(s.Name, func(t *testing.T) {
			var errOut bytes.Buffer
			got, err := s.Run([]string{"--spoil", "0"}, t.Output(), &errOut)
			if got.OK || !errors.Is(err, core.ErrUnexpected) || !strings.Contains(err.Error(), s.Name+": task ") {
				t.Errorf("ok %v and error %v, want a complaint about a task", got.OK, err)
			}
			if back := got.Completed + got.Failed + got.Flushed; back < wanted[i].Tasks {
				t.Errorf("%d tasks came back, want at least %d", back, wanted[i].Tasks)
			}
			if errOut.Len() > 0 {
				t.Errorf("the clean-up went wrong: %q", &errOut)
			}
		})
	}
}

func TestWrongUsageIsToldApart(t *testing.T) {
	for _, s := range alone() {
		for _, args := range [][]string{
			{"--nonsense"}, {"--executor", "magic"}, {"--executor"}, {"--workers", "-1"},
			{"--workers", "many"}, {"--workers", "1000000"}, {"--device", "left of the fan"}, {"left over"},
		} {
			var out, errOut bytes.Buffer
			got, err := s.Run(args, &out, &errOut)
			if got.OK || got.Name != s.Name || !errors.Is(err, samples.ErrUsage) {
				t.Errorf("%s %q: got %+v and %v, want %v", s.Name, args, got, err, samples.ErrUsage)
			}
			if out.Len() > 0 || errOut.Len() > 0 {
				t.Errorf("%s %q: printed %q and %q", s.Name, args, &out, &errOut)
			}
		}
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	for _, s := range alone() {
		for _, flag := range []string{"-h", "--help"} {
			var out bytes.Buffer
			got, err := s.Run([]string{flag}, &out, io.Discard)
			if err != nil || !got.OK || got.Tasks != 0 {
				t.Errorf("%s %s: got %+v and %v", s.Name, flag, got, err)
			}
			for _, want := range []string{s.Name, "-device PCI", "-executor", "-workers"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s %s: no %q in %q", s.Name, flag, want, &out)
				}
			}
		}
	}
}

func TestDeviceIsOpenedByAddress(t *testing.T) {
	infos, err := device.List()
	if err != nil {
		t.Fatal(err)
	}
	last := infos[len(infos)-1]
	for _, s := range alone() {
		for _, flag := range []string{"--device", "--pci-addr", "-p"} {
			var out bytes.Buffer
			_, err := s.Run([]string{flag, last.PCI().String()}, &out, io.Discard)
			if err != nil || !strings.Contains(out.String(), last.IBDev()) {
				t.Errorf("%s %s: error %v, %q does not name %s", s.Name, flag, err, &out, last.IBDev())
			}
		}
		got, err := s.Run([]string{"--device", "fffe:fe:1f.7"}, io.Discard, io.Discard)
		if got.OK || !errors.Is(err, core.ErrNotFound) || errors.Is(err, samples.ErrUsage) {
			t.Errorf("%s on no device: got %+v and %v", s.Name, got, err)
		}
	}
}

// A wake-up that is lost is lost for good here: nothing else ends the wait. The
// executors that copy on other goroutines can be too early or too late for it.
// The moment is short, so this is the sample under load and no proof: the
// sharp test is TestNoWakeUpIsLost of package core.
func TestEventLosesNoWakeUp(t *testing.T) {
	event := samples.List()[1]
	done := make(chan error, 1)
	go func() {
		var first error
		for i := range 2000 {
			_, err := event.Run(executors[2+i%3].args, io.Discard, io.Discard)
			core.KeepFirst(&first, err)
		}
		done <- first
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("pe_event hangs: a wake-up was lost")
	}
}

// Contexts take turns: on the inline executor, where nothing else decides, none
// gets ahead by more than the one whose turn it is.
func TestContextsTakeTurns(t *testing.T) {
	var out bytes.Buffer
	if _, err := samples.List()[3].Run(nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if want := "ahead of another: 1 completions"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in %q", want, &out)
	}
}

func TestResultHasTheKeysOfTheCommandLine(t *testing.T) {
	b, err := json.Marshal(result("pe_polling", 16, 15, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"pe_polling","ok":true,"tasks":16,"completed":15,"failed":1,"flushed":0,` +
		`"states":["idle\u003erunning","running\u003estopping","stopping\u003eidle"]}`
	if string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}
