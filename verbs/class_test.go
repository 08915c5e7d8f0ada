package verbs_test

import (
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A classifier notes the class and hop limit of what arrived last.
type classifier struct {
	link.Link
	last *atomic.Uint32
}

func (c classifier) Recv(frames []*frame.Frame) int {
	n := c.Link.Recv(frames)
	if n > 0 {
		c.last.Store(uint32(frames[n-1].TOS)<<8 | uint32(frames[n-1].TTL))
	}
	return n
}

// What an address vector asks for is in the packets, of a connection too, and
// may change when the queue is drained.
func TestConnectionsSendWithTheirClass(t *testing.T) {
	for _, typ := range []QPType{RC, UC} {
		onEach(t, func(t *testing.T, x work.Executor) {
			var last atomic.Uint32
			da, db, err := OpenPair(Config{Executor: x}, Config{Executor: x,
				Wrap: func(l link.Link) (link.Link, error) { return classifier{l, &last}, nil }})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			defer db.Close()
			defer da.Close()
			s := standard()
			s.typ = typ
			r := newRig(t, da, db, s)
			for _, want := range []uint32{0, 0xb807, 0} {
				if err := r.a.qp.Modify(QPAttr{State: StateSQD}, AttrState); err != nil {
					t.Fatal(err)
				}
				until(t, "the end of the drain", func() bool {
					da.Drive(0)
					a, _, err := r.a.qp.Query()
					return err == nil && !a.SQDraining
				})
				av := AVTo(db.Addr())
				av.TrafficClass, av.HopLimit = uint8(want>>8), uint8(want)
				if err := r.a.qp.Modify(QPAttr{State: StateSQD, AV: av}, AttrState|AttrAV); err != nil {
					t.Fatal(err)
				}
				if err := r.a.qp.Modify(QPAttr{State: StateRTS}, AttrState); err != nil {
					t.Fatal(err)
				}
				r.settle(r.a, r.b)
				if got := last.Load(); got != want {
					t.Errorf("got class and hop limit %#x, want %#x", got, want)
				}
			}
		})
	}
}
