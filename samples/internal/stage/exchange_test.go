package stage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/sample"
)

func exchangeIn(dir string) Exchange {
	return Exchange{Descriptor: filepath.Join(dir, "descriptor"), Buffer: filepath.Join(dir, "buffer")}
}

func TestExchangeHandsOver(t *testing.T) {
	x := exchangeIn(t.TempDir())
	go func() { _ = x.Write([]byte("key"), 0x7fff12345000, 30) }()
	blob, addr, n, err := x.Read(t.Context())
	if err != nil || string(blob) != "key" || addr != 0x7fff12345000 || n != 30 {
		t.Errorf("got %q, %#x, %d, %v", blob, addr, n, err)
	}
	for _, name := range []string{x.Descriptor, x.Buffer} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v, want a file for this user alone", name, info.Mode(), err)
		}
	}
	if err := errors.Join(x.Remove(), x.Remove(), x.Taken(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestExchangeLeavesFilesOfOthersAlone(t *testing.T) {
	for _, pick := range []func(*Exchange) string{
		func(x *Exchange) string { return x.Descriptor }, func(x *Exchange) string { return x.Buffer },
	} {
		dir := t.TempDir()
		x := exchangeIn(dir)
		name := pick(&x)
		if err := os.WriteFile(name, []byte("not yours"), 0o644); err != nil {
			t.Fatal(err)
		}
		err := x.Write([]byte("key"), 1, 2)
		if !errors.Is(err, core.ErrAlreadyExists) || !strings.Contains(err.Error(), name+" exists: ") {
			t.Errorf("got %v", err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != "not yours" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("there are %d files, %v, want 1", len(entries), err)
		}
	}
}

func TestExchangeRefusesWhatIsNoBuffer(t *testing.T) {
	for _, info := range []string{"", "1", "1 2 3", "one 2", "1 two", "-1 2", "1 -2", "99999999999999999999 1"} {
		x := exchangeIn(t.TempDir())
		if err := errors.Join(os.WriteFile(x.Buffer, []byte(info), 0o600), os.WriteFile(x.Descriptor, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := x.Read(t.Context()); !errors.Is(err, core.ErrInvalidValue) || !strings.Contains(err.Error(), "want an address and a length") {
			t.Errorf("%q: got %v", info, err)
		}
	}
}

// A wait that ends names what did not happen; the user who has enough is told
// apart.
func TestWaitsEnd(t *testing.T) {
	var waited error
	r, err := Run(Program{Name: "test", Side: Host, Play: func(s *Stage) error {
		ctx, cancel := s.Waiting()
		defer cancel()
		x := exchangeIn(t.TempDir())
		_, _, _, waited = x.Read(ctx)
		return s.Missed(waited, "nothing came")
	}}, []string{"-wait", "20ms"}, t.Output(), t.Output())
	if r.OK || !errors.Is(waited, context.DeadlineExceeded) || !errors.Is(err, core.ErrTimeOut) || !strings.Contains(err.Error(), "nothing came in 20ms") {
		t.Errorf("got %v and %v", waited, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &Stage{waiting: ctx}
	if err := s.Missed(core.ErrIOFailed, "nothing came"); err != core.ErrIOFailed {
		t.Errorf("another error: got %v", err)
	}
	cancel(errors.New("a signal came"))
	if err := s.Missed(context.Cause(ctx), "nothing came"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got %v", err)
	}
}

func TestSidesOpenTheirDevices(t *testing.T) {
	for _, c := range []struct {
		side Side
		args []string
		says string
		err  error
	}{
		{Host, nil, "test on gantry_host0 (0000:07:00.0)", nil},
		{DPU, nil, "test on gantry_dpu0 (0000:03:00.0)", nil},
		{Host, []string{"-p", "07:00.1"}, "gantry_host1", nil},
		{DPU, []string{"-p", "03:00.1", "-r", "07:00.1"}, "gantry_dpu1", nil},
		{DPU, []string{"-r", "07:00.7"}, "", core.ErrNotFound},
		{Host, []string{"-p", "03:00.0"}, "", core.ErrNotSupported},
		{DPU, []string{"-p", "07:00.0"}, "", core.ErrNotSupported},
		{DPU, []string{"-r", "somewhere"}, "", sample.ErrUsage},
		{Host, []string{"-r", "07:00.0"}, "", sample.ErrUsage},
		{Host, []string{"-wait", "0"}, "", sample.ErrUsage},
	} {
		var out bytes.Buffer
		_, err := Run(Program{Name: "test", Side: c.side, Play: func(s *Stage) error {
			if (s.Rep != nil) != (c.side == DPU) {
				t.Errorf("%v %q: representor %v", c.side, c.args, s.Rep)
			}
			return nil
		}}, c.args, &out, t.Output())
		if !errors.Is(err, c.err) || c.err == nil && err != nil || !strings.Contains(out.String(), c.says) {
			t.Errorf("side %d %q: got %v and %q, want %v and %q", c.side, c.args, err, &out, c.err, c.says)
		}
	}
}

// A second client may say what it likes: it is not the other half of the pair.
func TestMessagesOfAStrangerAreNotReceived(t *testing.T) {
	c := &Channel{conn: new(comch.Connection)}
	c.received(new(comch.Connection), []byte("stranger"))
	c.received(c.conn, []byte("peer"))
	if len(c.got) != 1 || string(c.got[0]) != "peer" {
		t.Errorf("got %q, want the message of the peer alone", c.got)
	}
}

// A channel carries messages both ways, and tells when the other end is gone.
func TestChannel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no Comch")
	}
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	play := func(mine, theirs string, first bool) func(*Stage) error {
		return func(s *Stage) (err error) {
			ctx, cancel := s.Waiting()
			defer cancel()
			e, err := core.NewEngine()
			if err != nil {
				return err
			}
			defer s.Clean(&err, e.Destroy)
			c, err := s.Open(ctx, e, "test")
			for errors.Is(err, core.ErrNotFound) && ctx.Err() == nil {
				c, err = s.Open(ctx, e, "test") // the server is not there yet
			}
			if err != nil {
				return err
			}
			defer s.Clean(&err, c.Close)
			if err := c.Send([]byte(mine)); err != nil {
				return err
			}
			if got, err := c.Recv(ctx); err != nil || string(got) != theirs {
				t.Errorf("got %q, %v, want %q", got, err, theirs)
			}
			if first {
				return nil
			}
			if _, err := c.Recv(ctx); !errors.Is(err, core.ErrConnectionReset) || !c.Lost() {
				t.Errorf("when the other end is gone: got %v", err)
			}
			return nil
		}
	}
	for _, first := range []Side{Host, DPU} {
		done := make(chan error)
		go func() {
			_, err := Run(Program{Name: "test", Side: DPU, Play: play("answer", "question", first == DPU)}, []string{"-wait", "20s"}, t.Output(), t.Output())
			done <- err
		}()
		begin := time.Now()
		_, err := Run(Program{Name: "test", Side: Host, Play: play("question", "answer", first == Host)}, []string{"-wait", "20s"}, t.Output(), t.Output())
		if err := errors.Join(err, <-done); err != nil || time.Since(begin) > 15*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	}
}
