package pingpong

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// A wire is the TCP connection of an exchange. It is closed with the context.
type wire struct {
	ctx  context.Context
	conn net.Conn
	stop func() bool
	last time.Duration // how long one answer may take
}

// newWire owns the connection from now on.
func newWire(ctx context.Context, conn net.Conn, limit time.Duration) *wire {
	return &wire{ctx, conn, context.AfterFunc(ctx, func() { _ = conn.Close() }), limit}
}

func (w *wire) close() {
	w.stop()
	_ = w.conn.Close() // also a second time
}

// shake carries on an exchange until it is over, or a server has to answer.
func (w *wire) shake(x *Exchange) error {
	if err := w.conn.SetDeadline(time.Now().Add(w.last)); err != nil {
		return w.explain(err)
	}
	var in [DestLen]byte
	for {
		if out := x.Out(); len(out) > 0 {
			if _, err := w.conn.Write(out); err != nil {
				return w.explain(err)
			}
		}
		want := x.Want()
		if want == 0 {
			return nil
		}
		n, err := w.conn.Read(in[:want])
		if _, wrong := x.In(in[:n]); wrong != nil {
			return wrong
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			if err = x.Closed(); err != nil {
				return err
			}
			return nil
		}
		if err != nil {
			return w.explain(err)
		}
	}
}

// explain says what an error of the connection means.
func (w *wire) explain(err error) error {
	switch {
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return rendezvous.Errorf(rendezvous.ErrPeer, "it has said nothing on TCP for %v: is a pingpong program at the other end, and does it run?", w.last)
	}
	return rendezvous.Errorf(rendezvous.ErrPeer, "the TCP connection broke (%w)", err)
}
