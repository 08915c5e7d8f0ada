package rping

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/verbs"
)

// Open opens the device for an end, or for both, on an address of this machine.
func Open(t Test, at netip.Addr) (*verbs.Device, error) {
	d, err := verbs.Open(verbs.Config{Addr: at, Wrap: t.wrap})
	switch {
	case err == nil:
		return d, nil
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w; --addr chooses one", err)
	case errors.Is(err, errors.ErrUnsupported):
		return nil, fmt.Errorf("open a device on %v: %w: this system has no RoCE over UDP", at, err)
	}
	return nil, err
}

// wrap puts the capture next to the wire: it shows what the faults left over.
func (t *Test) wrap(l link.Link) (link.Link, error) {
	if t.Capture != nil {
		l = link.NewCapture(l, t.Capture)
	}
	if f := t.Faults; f.Loss+f.Dup+f.Reorder+f.Corrupt > 0 {
		l = link.NewFaults(l, f)
	}
	return l, nil
}

// A desk hands the events of the connection manager to the sessions.
type desk struct {
	ch *cm.Channel

	mu       sync.Mutex
	sessions map[*cm.ID]*session
}

func newDesk(d *verbs.Device) (*desk, error) {
	ch, err := cm.Open(d)
	if err != nil {
		return nil, fmt.Errorf("open the connection manager: %w", err)
	}
	return &desk{ch: ch, sessions: map[*cm.ID]*session{}}, nil
}

// run hands events round until the context is done. A request for a connection
// goes to asked, which must not wait.
func (d *desk) run(ctx context.Context, asked func(*cm.ID)) error {
	for {
		e, err := d.ch.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("wait for an event of the connection manager: %w", err)
		case e.Type == cm.ConnectRequest:
			asked(e.ID)
			continue
		}
		if s := d.session(e.ID); s != nil {
			s.happened(e)
		}
	}
}

func (d *desk) session(id *cm.ID) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[id]
}

func (d *desk) enter(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s.id] = s
}

func (d *desk) leave(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s.id)
}
