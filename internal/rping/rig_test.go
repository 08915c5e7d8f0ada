package rping

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/verbs"
)

var (
	ours   = netip.MustParseAddr("127.0.0.81")
	theirs = netip.MustParseAddr("127.0.0.82")
)

// quick is a test that does not wait long for who is gone.
func quick() Test {
	t := NewTest()
	t.Check = true
	return t
}

// open opens a device that goes away with the test.
func open(t *testing.T, c Test, at netip.Addr) *verbs.Device {
	t.Helper()
	d, err := Open(c, at)
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the device: %v", err)
		}
	})
	return d
}

// A served is a server that runs.
type served struct {
	*Server
	t     *testing.T
	stop  context.CancelFunc
	ended chan struct{}
	tally Tally
	err   error
}

// serve starts a server, which ends with the test or before.
func serve(t *testing.T, c Test, d *verbs.Device) *served {
	t.Helper()
	w, err := Listen(c, d, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &served{Server: w, t: t, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.tally, s.err = w.Serve(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-s.ended
		if err := w.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return s
}

// end waits for the server, and stops it first if it would not stop.
func (s *served) end(stop bool) (Tally, error) {
	s.t.Helper()
	if stop {
		s.stop()
	}
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		s.t.Fatal("the server does not end")
	}
	return s.tally, s.err
}
