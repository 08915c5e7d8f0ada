package verbs_test

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A meter counts how often a link sends something.
type meter struct {
	link.Link
	calls *atomic.Int64
}

func (m meter) Send(frames []*frame.Frame) int {
	m.calls.Add(1)
	return m.Link.Send(frames)
}

// polledPair opens two devices over loopback that are polled apart from each
// other, and counts what both send.
func polledPair(t *testing.T) (a, b *Device, sends *atomic.Int64) {
	sends = new(atomic.Int64)
	open := func(last byte) *Device {
		x := work.NewInline()
		t.Cleanup(x.Close)
		d, err := Open(Config{
			Addr: netip.AddrFrom4([4]byte{127, 0, 0, last}), Executor: x,
			Wrap: func(l link.Link) (link.Link, error) { return meter{l, sends}, nil },
		})
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, errors.ErrUnsupported) {
			t.Skipf("no device on 127.0.0.%d: %v", last, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	return open(1), open(2), sends
}

func TestAnAnswerTakesItsAcknowledgementAlong(t *testing.T) {
	da, db, sends := polledPair(t)
	r := newRig(t, da, db, standard())
	const rounds = 64
	for range rounds {
		for _, e := range [][2]*end{{r.a, r.b}, {r.b, r.a}} {
			e[1].recv(RecvWR{SG: []SGE{e[1].mr.SGE(0, 64)}})
			e[0].send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{e[0].mr.SGE(0, 64)}})
			e[0].dev.Drive(0)
			e[1].good(e[1].cq)
		}
		r.a.good(r.a.scq)
	}
	// Two sends of each round would be acknowledgements alone. A timer sends
	// some of those, when the machine is busy.
	if n := sends.Load(); n > 3*rounds {
		t.Errorf("%d sends for %d messages and answers, want little more than %d", n, rounds, 2*rounds)
	}
}

func TestTheLastMessageIsAcknowledgedWithoutAPoll(t *testing.T) {
	da, db, _ := polledPair(t)
	r := newRig(t, da, db, standard())
	for range 8 {
		r.b.recv(RecvWR{SG: []SGE{r.b.mr.SGE(0, 64)}})
		r.a.send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 64)}})
		da.Drive(0)
		r.b.good(r.b.cq)
		r.a.good(r.a.scq) // nobody polls b any more
	}
}
