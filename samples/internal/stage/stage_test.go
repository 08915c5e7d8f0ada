package stage

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/samples/sample"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run plays play with some pairs of bufs, and returns what went to errOut too.
func run(t *testing.T, pairs int, play func(*Stage) error, args ...string) (sample.Result, string, error) {
	t.Helper()
	var errOut bytes.Buffer
	r, err := Run(Program{Name: "test", Pairs: pairs, Play: play}, args, t.Output(), &errOut)
	return r, errOut.String(), err
}

func TestFirstErrorIsKeptAndLaterOnesAreTold(t *testing.T) {
	first, second, third := errors.New("first"), errors.New("second"), errors.New("third")
	r, also, err := run(t, 1, func(s *Stage) (err error) {
		defer s.Clean(&err, func() error { return third })
		defer s.Clean(&err, func() error { return nil })
		defer s.Clean(&err, func() error { return second })
		return first
	})
	if r.OK || !errors.Is(err, first) || errors.Is(err, second) {
		t.Errorf("ok %v and error %v, want %v", r.OK, err, first)
	}
	if want := "test: also: second\ntest: also: third\n"; also != want {
		t.Errorf("told %q, want %q", also, want)
	}
}

func TestErrorOfACleanUpIsAnError(t *testing.T) {
	broken := errors.New("broken")
	r, also, err := run(t, 1, func(s *Stage) (err error) {
		defer s.Clean(&err, func() error { return broken })
		return nil
	})
	if r.OK || !errors.Is(err, broken) || also != "" {
		t.Errorf("ok %v, error %v, told %q", r.OK, err, also)
	}
}

func TestErrorOfACallbackComesFirst(t *testing.T) {
	early, late := errors.New("early"), errors.New("late")
	_, also, err := run(t, 1, func(s *Stage) error { s.Keep(nil); s.Keep(early); return late })
	if !errors.Is(err, early) || also != "test: also: late\n" {
		t.Errorf("error %v, told %q", err, also)
	}
}

// Whatever a sample forgets to give back shows up when the stage is cleared:
// here in the inventory, and so in the map and in the device.
func TestForgottenBufIsFound(t *testing.T) {
	var on *Stage
	var forgotten *mem.Buf
	r, also, err := run(t, 1, func(s *Stage) error {
		src, dst, err := s.Pair(0)
		on, forgotten = s, dst
		s.Drop(src)
		return err
	})
	if r.OK || !errors.Is(err, core.ErrInUse) || !strings.Contains(also, "gantry0") {
		t.Errorf("ok %v, error %v, told %q, want %v", r.OK, err, also, core.ErrInUse)
	}
	on.Drop(forgotten)
	if err := errors.Join(on.destroyMemory(), on.Device.Close()); err != nil {
		t.Errorf("clearing once more: %v", err)
	}
}

func TestForgottenContextIsFound(t *testing.T) {
	var d *dma.Context
	r, _, err := run(t, 1, func(s *Stage) (err error) { d, err = dma.New(s.Device); return err })
	if r.OK || !errors.Is(err, core.ErrInUse) {
		t.Errorf("ok %v and error %v, want %v", r.OK, err, core.ErrInUse)
	}
	dev := d.Device()
	if err := errors.Join(d.Destroy(), dev.Close()); err != nil {
		t.Error(err)
	}
}

func TestPairHoldsWhatItSays(t *testing.T) {
	r, also, err := run(t, 255, func(s *Stage) error {
		for i := range 255 {
			src, dst, err := s.Pair(i)
			if err != nil {
				return err
			}
			full := bytes.Repeat([]byte{byte(i + 1)}, Size)
			if !bytes.Equal(src.Data(), full) || dst.DataLen() != 0 || !bytes.Equal(dst.Head(), make([]byte, Size)) {
				t.Errorf("pair %d: wrong contents", i)
			}
			defer s.Drop(src, dst)
		}
		_, _, err := s.Pair(0)
		s.Want("one pair too many", err, core.ErrNoMemory)
		return nil
	})
	if err != nil || !r.OK || also != "" {
		t.Errorf("got %+v, %v, told %q", r, err, also)
	}
}

// copies makes one copy with the given user data, after wrong has had its way
// with the task, and checks it.
func copies(user uint64, wrong func(*dma.Memcpy)) func(*Stage) error {
	return func(s *Stage) (err error) {
		e, err := core.NewEngine()
		if err != nil {
			return err
		}
		defer s.Clean(&err, e.Destroy)
		d, err := dma.New(s.Device)
		if err != nil {
			return err
		}
		defer s.Clean(&err, d.Destroy)
		core.KeepFirst(&err, e.Connect(&d.Context))
		core.KeepFirst(&err, d.ConfigureMemcpy(
			func(t *dma.Memcpy) { wrong(t); s.Check(t); s.Release(t) },
			func(t *dma.Memcpy) { s.Fail(t); s.Release(t) }, 1))
		core.KeepFirst(&err, d.Start())
		if err != nil {
			return err
		}
		defer s.Clean(&err, func() error { return d.Shutdown(context.Background()) })
		src, dst, err := s.Pair(0)
		core.KeepFirst(&err, err)
		task, err := d.AllocMemcpy(src, dst)
		if err != nil {
			return err
		}
		task.User = user
		if err := task.Submit(); err != nil {
			return err
		}
		for s.Back() == 0 {
			e.Progress()
		}
		s.Settle(1, 0, 0)
		return nil
	}
}

func TestCheckSeesEveryByteAndTheLength(t *testing.T) {
	flip := func(i int) func(*dma.Memcpy) { return func(t *dma.Memcpy) { t.Dst().Data()[i]++ } }
	for name, c := range map[string]struct {
		user  uint64
		wrong func(*dma.Memcpy)
		want  string // in the error; "" for none
	}{
		"right":       {1, func(*dma.Memcpy) {}, ""},
		"other value": {2, func(*dma.Memcpy) {}, "byte 0 of the destination is 0x1, want 0x2"},
		"first byte":  {1, flip(0), "byte 0 of"},
		"middle byte": {1, flip(511), "byte 511 of"},
		"last byte":   {1, flip(Size - 1), "byte 1023 of"},
		"too short":   {1, func(t *dma.Memcpy) { _ = t.Dst().SetDataLen(Size - 1) }, "has 1023 bytes of data"},
		"nothing":     {1, func(t *dma.Memcpy) { _ = t.Dst().ResetDataLen() }, "has 0 bytes of data"},
	} {
		r, also, err := run(t, 1, copies(c.user, c.wrong))
		if r.OK != (c.want == "") || r.OK != (err == nil) || also != "" {
			t.Errorf("%s: ok %v, error %v, told %q", name, r.OK, err, also)
		}
		if c.want != "" && (!errors.Is(err, core.ErrUnexpected) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestSpoiledByteIsInItsPairOnly(t *testing.T) {
	_, _, err := run(t, 3, func(s *Stage) error {
		for i := range 3 {
			src, dst, err := s.Pair(i)
			if err != nil {
				return err
			}
			defer s.Drop(src, dst)
			full := bytes.Repeat([]byte{byte(i + 1)}, Size)
			if same := bytes.Equal(src.Data(), full); same != (i != 1) {
				t.Errorf("pair %d is as it should be: %v", i, same)
			}
		}
		return nil
	}, "-spoil", "1")
	if err != nil {
		t.Error(err)
	}
}

func TestSettleComparesEachCount(t *testing.T) {
	for _, got := range [][3]int{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}} {
		_, _, err := run(t, 1, func(s *Stage) error {
			s.Completed, s.Failed, s.Flushed = got[0], got[1], got[2]
			s.Settle(0, 0, 0)
			return nil
		})
		if (err == nil) != (got == [3]int{}) {
			t.Errorf("%v against no task at all: %v", got, err)
		}
	}
}

func TestFlagsOfTheSampleAreItsOwn(t *testing.T) {
	var n int
	bad := errors.New("n is odd")
	p := Program{Name: "test", Play: func(*Stage) error { return nil },
		Flags: func(f *flag.FlagSet) { f.IntVar(&n, "n", 0, "a `number`") },
		Check: func() error {
			if n%2 == 1 {
				return bad
			}
			return nil
		},
	}
	if r, err := Run(p, []string{"-n", "4"}, io.Discard, io.Discard); err != nil || !r.OK || n != 4 {
		t.Errorf("-n 4: got %+v, %v, n %d", r, err, n)
	}
	if _, err := Run(p, []string{"-n", "3"}, io.Discard, io.Discard); !errors.Is(err, sample.ErrUsage) || !errors.Is(err, bad) {
		t.Errorf("-n 3: got %v, want %v and %v", err, sample.ErrUsage, bad)
	}
}
