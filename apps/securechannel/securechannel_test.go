package securechannel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// sideVariable makes this test program one side of a run, in a process of its
// own: the other one is the test.
const sideVariable = "GANTRY_TEST_SECURE_CHANNEL"

func TestMain(m *testing.M) {
	if s := os.Getenv(sideVariable); s != "" {
		o := Options{Messages: MaxMessages, Size: 64, Wait: 10 * time.Second}
		if s == "dpu" {
			o.Side = DPU
		}
		_, err := Run(context.Background(), o)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(dir, "run"))
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// both runs the two sides at once.
func both(t *testing.T, dpu, host Options) (d, h Result) {
	t.Helper()
	dpu.Side, host.Side = DPU, Host
	over := make(chan error, 1)
	go func() {
		var err error
		d, err = Run(t.Context(), dpu)
		over <- err
	}()
	h, err := Run(t.Context(), host)
	if err = errors.Join(err, <-over); err != nil {
		t.Fatal(err)
	}
	return d, h
}

func TestSidesNeedNotSendAlike(t *testing.T) {
	for _, c := range []struct{ dpu, host Options }{
		{Options{Messages: 1, Size: 1}, Options{Messages: 1, Size: 1}},
		{Options{Messages: 1, Size: MaxSize}, Options{Messages: 20_000, Size: 64}},
		{Options{Messages: 3000, Size: 5000}, Options{Messages: window + 1, Size: 1}},
	} {
		d, h := both(t, c.dpu, c.host)
		if d.Sent != c.dpu.Messages || h.Received != c.dpu.Messages || h.Sent != c.host.Messages || d.Received != c.host.Messages {
			t.Errorf("%+v: got %+v and %+v", c, d, h)
		}
		if d.Size != c.dpu.Size || h.Size != c.host.Size || d.Sending <= 0 || h.Sending <= 0 {
			t.Errorf("%+v: got %+v and %+v", c, d, h)
		}
	}
}

func TestProgressIsTold(t *testing.T) {
	var last int64
	o := Options{Messages: 300_000, Size: 8, Progress: func(done, total int64) {
		if done < last || done > total || total != 600_000 {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}}
	if _, _, err := Loop(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func TestNobodyComes(t *testing.T) {
	for _, s := range []Side{Host, DPU} {
		_, err := Run(t.Context(), Options{Messages: 1, Size: 1, Side: s, Wait: 100 * time.Millisecond, service: "nobody"})
		if !errors.Is(err, core.ErrTimeOut) || !strings.Contains(fmt.Sprint(err), "start the other side") {
			t.Errorf("%v: got %v", s, err)
		}
	}
}

func TestOneDPUSideForAHost(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	waits, over := make(chan string, 1), make(chan error, 1)
	go func() {
		_, err := Run(ctx, Options{Messages: 1, Size: 1, Side: DPU, Note: func(s string) { waits <- s }})
		over <- err
	}()
	<-waits
	_, err := Run(t.Context(), Options{Messages: 1, Size: 1, Side: DPU})
	if !errors.Is(err, core.ErrAlreadyExists) {
		t.Errorf("a second DPU side: got %v", err)
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the first, cancelled: got %v", err)
	}
}

// A side whose peer is killed in the middle says so, soon, and its name is free.
func TestTheOtherSideIsKilled(t *testing.T) {
	for _, s := range []Side{Host, DPU} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		there := child.Command(t, os.Args[0])
		there.Env, there.Stderr = append(os.Environ(), sideVariable+"="+s.Other().String()), new(bytes.Buffer)
		if err := there.Start(); err != nil {
			t.Fatal(err)
		}
		killed := false
		_, err := Run(ctx, Options{Messages: MaxMessages, Size: 64, Side: s, Progress: func(done, _ int64) {
			if done > 100_000 && !killed {
				killed = true
				_ = there.Process.Kill()
			}
		}})
		if !killed || !errors.Is(err, core.ErrConnectionReset) || ctx.Err() != nil || !strings.Contains(err.Error(), "the other side ended") {
			t.Errorf("%v: killed %v, got %v", s, killed, err)
		}
		_ = there.Wait() // it was killed, or ends by itself
		cancel()
		both(t, Options{Messages: 10, Size: 10}, Options{Messages: 10, Size: 10})
	}
}

func TestCancelledInTheMiddle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Messages: MaxMessages, Size: 64, Progress: func(done, _ int64) {
		if done > 100_000 {
			cancel()
		}
	}}
	if _, _, err := Loop(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, o := range []Options{{Size: 1}, {Messages: MaxMessages + 1, Size: 1}, {Messages: 1}, {Messages: 1, Size: MaxSize + 1}} {
		if _, err := Run(t.Context(), o); !errors.Is(err, core.ErrInvalidValue) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	if _, _, err := Loop(t.Context(), Options{Messages: 1, Size: 1, Device: "1f:1f.7"}); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("a card that does not exist: got %v", err)
	}
}

func FuzzControlMessages(f *testing.F) {
	f.Add(encodeEnd())
	f.Add(start{1, 1}.encode())
	f.Add(start{MaxMessages, MaxSize}.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		switch {
		case err != nil && !errors.Is(err, core.ErrInvalidValue):
			t.Errorf("got %v", err)
		case err == nil && m == nil && string(b) != string(encodeEnd()):
			t.Errorf("%x is an END", b)
		case m != nil && string(m.encode()) != string(b):
			t.Errorf("%x is %+v", b, m)
		}
	})
}
