package verbs_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
)

var mgid = GIDOf(netip.MustParseAddr("239.1.2.3"))

// join makes another queue pair of the end ready, attached or not.
func (e *end) join(s settings, attached bool) *end {
	e.t.Helper()
	o := newEnd(e.t, e.dev, s)
	toInit(e.t, o.qp, s)
	toRTR(e.t, s, o.qp, e.dev, 0)
	toRTS(e.t, s, o.qp)
	if attached {
		if err := o.qp.AttachMulticast(mgid, 0); err != nil {
			e.t.Fatal(err)
		}
	}
	o.ah = must(o.pd.CreateAH(AHTo(mgid.Addr())))(e.t)
	return o
}

func (e *end) detach() {
	e.t.Helper()
	if err := e.qp.DetachMulticast(mgid, 0); err != nil {
		e.t.Error(err)
	}
}

// TestAGroupGetsADatagramOnceEach: two at the sender's device, two at the other
// one, and one that is not attached.
func TestAGroupGetsADatagramOnceEach(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := unreliable(UD)
		r := newRig(t, da, db, s)
		members := []*end{r.a.join(s, true), r.a.join(s, true), r.b.join(s, true), r.b.join(s, true)}
		stranger := r.b.join(s, false)
		from := members[0]
		for _, m := range append(members, stranger) {
			for i := range 3 {
				m.recv(RecvWR{ID: uint64(i), SG: []SGE{m.mr.SGE(4096+8192*i, 5000)}})
			}
		}
		for i, size := range []int{3, 1000, 4096} {
			fill(from.mem[:size], i)
			wr := from.datagram(9, from, size)
			wr.RemoteQPN = 0xffffff
			from.send(wr)
			from.good(from.scq)
			for _, m := range members {
				wc := m.good(m.cq)
				if wc.ID != uint64(i) || wc.SrcQP != from.qp.Num() || int(wc.ByteLen) != size+roce.GRHLen {
					t.Errorf("got %+v, want receive %d of %d bytes", wc, i, size)
				}
				at := 4096 + 8192*i
				g := (*roce.GRH)(m.mem[at:])
				if g.Dst() != mgid.Addr() || g.Src() != from.dev.Addr() {
					t.Errorf("got a GRH from %v to %v, want %v to %v", g.Src(), g.Dst(), from.dev.Addr(), mgid)
				}
				if !bytes.Equal(m.mem[at+roce.GRHLen:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were sent", size)
				}
			}
		}
		var wc [1]WC
		if stranger.cq.Poll(wc[:]) != 0 {
			t.Errorf("got %+v where nobody is attached", wc[0])
		}
		if err := from.qp.Destroy(); !errors.Is(err, EBUSY) {
			t.Errorf("destroying an attached queue pair gives %v, want EBUSY", err)
		}
		for _, m := range members {
			m.detach()
		}
		if err := from.qp.DetachMulticast(mgid, 0); !errors.Is(err, EINVAL) {
			t.Errorf("detaching twice gives %v, want EINVAL", err)
		}
	})
}
