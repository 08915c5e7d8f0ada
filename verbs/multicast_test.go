package verbs_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
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

// Over IPv6 a group needs an interface that knows multicast: loopback has no
// route for it.
func TestAnIPv6GroupGetsADatagram(t *testing.T) {
	d := onMulticastInterface(t)
	group := GIDOf(netip.MustParseAddr("ff15::77:1"))
	r := newRig(t, d, d, unreliable(UD))
	if err := r.b.qp.AttachMulticast(group, 0); err != nil {
		t.Fatal(err)
	}
	ah := must(r.a.pd.CreateAH(AHTo(group.Addr())))(t)
	r.b.recv(RecvWR{ID: 1, SG: []SGE{r.b.mr.SGE(0, 200)}})
	wr := r.a.datagram(1, r.b, 100)
	wr.AH, wr.RemoteQPN = ah, 0xffffff
	r.a.send(wr)
	r.a.good(r.a.scq)
	wc := r.b.good(r.b.cq)
	if g := (*roce.GRH)(r.b.mem); g.Dst() != group.Addr() || g.Src() != d.Addr() || wc.SrcQP != r.a.qp.Num() {
		t.Errorf("got a datagram from %v to %v, want %v to %v", g.Src(), g.Dst(), d.Addr(), group)
	}
}

// onMulticastInterface opens a device on an IPv6 address of an interface that
// knows multicast, or skips the test.
func onMulticastInterface(t *testing.T) *Device {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Skip(err)
	}
	x := work.NewInline()
	t.Cleanup(x.Close)
	for _, i := range all {
		if i.Flags&(net.FlagUp|net.FlagMulticast) != net.FlagUp|net.FlagMulticast {
			continue
		}
		addrs, _ := i.Addrs()
		for _, has := range addrs {
			p, err := netip.ParsePrefix(has.String())
			if err != nil || !p.Addr().Is6() || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			if d, err := Open(Config{Addr: p.Addr(), Executor: x}); err == nil {
				t.Cleanup(func() { d.Close() })
				return d
			}
		}
	}
	t.Skip("no interface with multicast and an IPv6 address")
	return nil
}

func TestGroupsThatCannotBeAreRefused(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UD))
		uc := newRig(t, da, db, unreliable(UC))
		for what, err := range map[string]error{
			"no group":     r.a.qp.AttachMulticast(GIDOf(db.Addr()), 0),
			"other family": r.a.qp.AttachMulticast(GIDOf(netip.MustParseAddr("ff0e::ffff:239.1.2.3")), 0),
			"UC":           uc.a.qp.AttachMulticast(mgid, 0),
			"detach":       r.a.qp.DetachMulticast(mgid, 0),
		} {
			if !errors.Is(err, EINVAL) {
				t.Errorf("%s: got error %v, want EINVAL", what, err)
			}
		}
	})
}

// A device that is closed gives up its groups, and what waits in them.
func TestClosingADeviceLeavesItsGroups(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := unreliable(UD)
		from := newRig(t, da, db, s).a.join(s, true)
		e := newEnd(t, db, s)
		toInit(t, e.qp, s)
		for range 2 {
			if err := e.qp.AttachMulticast(mgid, 0); err != nil {
				t.Fatal(err)
			}
		}
		wr := from.datagram(1, e, 100)
		wr.RemoteQPN = 0xffffff
		from.send(wr, wr, wr)
	})
}

// Queue pairs come and go while a group is talked to: whoever is attached
// throughout gets all, and no frame stays out.
func TestMembersComeAndGo(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		s := unreliable(UD)
		s.cap.MaxRecvWR = 256
		from := newRig(t, da, db, s).a.join(s, false)
		steady := from.join(s, true)
		comer := newEnd(t, db, s)
		toInit(t, comer.qp, s)
		toRTR(t, s, comer.qp, db, 0)
		const n = 300
		gone := make(chan struct{})
		var over atomic.Bool
		go func() {
			defer close(gone)
			for !over.Load() {
				comer.qp.PostRecv(RecvWR{SG: []SGE{comer.mr.SGE(0, 2000)}})
				if err := comer.qp.AttachMulticast(mgid, 0); err != nil {
					t.Error(err)
				}
				if err := comer.qp.DetachMulticast(mgid, 0); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		}()
		var wc [8]WC
		sent, done, got := 0, 0, 0
		until(t, "the datagrams", func() bool {
			for sent < n && sent-got < 32 && sent-done < 32 {
				steady.recv(RecvWR{ID: uint64(sent), SG: []SGE{steady.mr.SGE(0, 2000)}})
				wr := from.datagram(uint64(sent), from, 1000)
				wr.RemoteQPN = 0xffffff
				from.send(wr)
				sent++
			}
			done += from.scq.Poll(wc[:])
			for _, c := range wc[:steady.cq.Poll(wc[:])] {
				if c.Status != WCSuccess || c.ID != uint64(got) {
					t.Fatalf("got %+v, want receive %d", c, got)
				}
				got++
			}
			return done == n && got == n
		})
		over.Store(true)
		<-gone
		comer.cq.Poll(wc[:])
	})
}
