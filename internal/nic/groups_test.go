package nic

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

const testQKey = 0x42

var someGroup = netip.MustParseAddr("239.5.5.5")

// newUD makes a queue pair of UD that is ready to receive, on an executor of its
// own if x is not nil.
func (b *bench) newUD(t testing.TB, x work.Executor) *QP {
	t.Helper()
	q, err := b.d.NewQP(QPConfig{
		PD: b.pd, Transport: roce.UD, SendCQ: b.cq, RecvCQ: b.cq, SendDepth: 16, RecvDepth: 64, SendSGE: 1, RecvSGE: 1,
		Executor: x,
	})
	if err != nil {
		t.Fatal(err)
	}
	q.ToInit()
	q.ToRTR(qp.ResponderConfig{MTU: roce.MTU4096, QKey: testQKey}, AddressVector{})
	return q
}

// receives posts n receives of 200 bytes.
func (b *bench) receives(q *QP, n int) {
	q.LockReceives()
	for range n {
		w := q.NextReceive()
		w.SG = append(w.SG[:0], qp.SGE{Addr: b.mr.Addr(), Len: 200, LKey: b.mr.Key()})
		q.PostReceive()
	}
	q.UnlockReceives()
}

// completions takes what has completed, and returns how many for each queue pair.
func (b *bench) completions() map[uint32]int {
	got := map[uint32]int{}
	x, y := b.cq.Take(1024)
	for _, e := range append(append([]qp.CQE{}, x...), y...) {
		got[e.QPN]++
	}
	if n := len(x) + len(y); n > 0 {
		b.cq.Done(n)
	}
	return got
}

// toGroup returns a datagram of 8 bytes to someGroup, changed by edit.
func (b *bench) toGroup(edit func(f *frame.Frame, h roce.Headers)) *frame.Frame {
	return b.packet(roce.UDSendOnly, 8, func(f *frame.Frame, h roce.Headers) {
		f.Local = frame.Addr{IP: someGroup.As16(), Port: roce.Port}
		h.BTH().SetDestQP(groupQPN)
		h.DETH().Set(testQKey, 7)
		if edit != nil {
			edit(f, h)
		}
	})
}

// members are queue pairs that are attached to someGroup.
func (b *bench) members(t testing.TB, n int, x work.Executor) (all []*QP) {
	t.Helper()
	for range n {
		q := b.newUD(t, x)
		if err := q.Attach(someGroup); err != nil {
			t.Fatal(err)
		}
		all = append(all, q)
	}
	return all
}

// A frame goes back to the link once, when the last of a group has had it.
func TestAFrameOfAGroupGoesBackOnce(t *testing.T) {
	for n := range 4 {
		b := newBench(t)
		all := b.members(t, n, nil)
		for _, q := range all {
			b.receives(q, 3)
		}
		b.s.arrive(b.d, b.toGroup(nil), b.toGroup(nil), b.toGroup(nil))
		got := b.completions()
		for _, q := range all {
			if got[q.Num()] != 3 {
				t.Errorf("with %d members: got %d datagrams, want 3", n, got[q.Num()])
			}
		}
		if b.s.given != 3 {
			t.Errorf("with %d members: got %d frames given back, want 3", n, b.s.given)
		}
		if s := &b.d.groups.refs; s.count() != s.made {
			t.Errorf("with %d members: got %d free references, want %d", n, s.count(), s.made)
		}
		if got := b.d.counter("drop_group"); n == 0 && got != 3 {
			t.Errorf("got %d datagrams to no group, want 3", got)
		}
	}
}

// count returns how many references are free.
func (s *references) count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := s.free; r != nil; r = r.next {
		n++
	}
	return n
}

// While a member is stopped its datagrams wait, up to a limit; then they are
// dropped, for it alone.
func TestASlowMemberLosesItsOwn(t *testing.T) {
	b := newBench(t)
	x := work.NewInline()
	defer x.Close()
	fast := b.members(t, 1, nil)[0]
	slow := b.members(t, 1, x)[0] // nobody drives it
	const n = 2000
	for range n / 50 {
		b.receives(fast, 50)
		var frames []*frame.Frame
		for range 50 {
			frames = append(frames, b.toGroup(nil))
		}
		b.s.arrive(b.d, frames...)
		if got := b.completions()[fast.Num()]; got != 50 {
			t.Fatalf("got %d of 50 datagrams beside a slow one", got)
		}
	}
	if got := b.d.counter("drop_backlog"); got != n-groupBacklog {
		t.Errorf("got %d datagrams dropped, want all but %d", got, groupBacklog)
	}
	for _, q := range []*QP{slow, fast} {
		if err := q.Detach(someGroup); err != nil {
			t.Error(err)
		}
		if err := q.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if b.s.given != n {
		t.Errorf("got %d frames given back, want %d", b.s.given, n)
	}
	if s := &b.d.groups.refs; s.count() != s.made || s.made > 4*groupBacklog+2 {
		t.Errorf("got %d free references, want %d", s.count(), s.made)
	}
}

func TestDatagramsThatDoNotBelongAreDropped(t *testing.T) {
	type edit = func(f *frame.Frame, h roce.Headers)
	for what, c := range map[string]struct {
		counter string
		edit    edit
	}{
		"another partition":             {"drop_pkey", func(_ *frame.Frame, h roce.Headers) { h.BTH().SetPKey(0x8001) }},
		"another Q_Key":                 {"drop_qkey", func(_ *frame.Frame, h roce.Headers) { h.DETH().Set(testQKey+1, 7) }},
		"another group":                 {"drop_group", func(f *frame.Frame, _ roce.Headers) { f.Local.IP[15]++ }},
		"group number, our own address": {"drop_group", func(f *frame.Frame, _ roce.Headers) { f.Local = here }},
		"group number, RC":              {"drop_unknown_qp", func(f *frame.Frame, h roce.Headers) { asRC(f, groupQPN) }},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			q := b.members(t, 1, nil)[0]
			b.receives(q, 1)
			b.s.arrive(b.d, b.toGroup(c.edit))
			if got := b.d.counter(c.counter); got != 1 || b.s.given != 1 {
				t.Errorf("got %s %d and %d frames back, want 1 and 1", c.counter, got, b.s.given)
			}
		})
	}
	t.Run("group address, number of a queue pair", func(t *testing.T) {
		b := newBench(t)
		q := b.members(t, 1, nil)[0]
		b.s.arrive(b.d, b.toGroup(func(_ *frame.Frame, h roce.Headers) { h.BTH().SetDestQP(q.Num()) }))
		if got := b.d.counter("drop_address"); got != 1 {
			t.Errorf("got drop_address %d, want 1", got)
		}
	})
	t.Run("before it is ready", func(t *testing.T) {
		b := newBench(t)
		q := b.members(t, 1, nil)[0]
		if err := q.ToReset(); err != nil {
			t.Fatal(err)
		}
		b.s.arrive(b.d, b.toGroup(nil))
		if got := b.d.counter("drop_qp_state"); got != 1 {
			t.Errorf("got drop_qp_state %d, want 1", got)
		}
	})
}

// asRC makes a SEND of RC of a frame.
func asRC(f *frame.Frame, qpn uint32) {
	h := roce.Build((*[roce.HeadSize]byte)(&f.Head), roce.RCSendOnly)
	f.HeadLen = uint8(h.Len())
	h.BTH().SetDestQP(qpn)
}

// Datagrams come from anyone, to this device.
func TestDatagramsComeFromAnyone(t *testing.T) {
	b := newBench(t)
	q := b.newUD(t, nil)
	b.receives(q, 2)
	b.s.arrive(b.d,
		b.toGroup(func(f *frame.Frame, h roce.Headers) { f.Local = here; h.BTH().SetDestQP(q.Num()) }),
		b.toGroup(func(f *frame.Frame, h roce.Headers) { f.Local = here; f.Peer.IP[15] = 77; h.BTH().SetDestQP(q.Num()) }))
	if got := b.completions()[q.Num()]; got != 2 {
		t.Errorf("got %d datagrams, want 2", got)
	}
}

func TestOnlyUDIsAttached(t *testing.T) {
	b := newBench(t)
	if err := b.q.Attach(someGroup); !errors.Is(err, ErrInvalid) {
		t.Errorf("got error %v for RC, want ErrInvalid", err)
	}
	q := b.newUD(t, nil)
	for range 2 {
		if err := q.Attach(someGroup); err != nil {
			t.Error(err)
		}
	}
	if err := q.Destroy(); !errors.Is(err, ErrBusy) {
		t.Errorf("got error %v for one that is attached, want ErrBusy", err)
	}
	if err := q.Detach(someGroup); err != nil {
		t.Error(err)
	}
	if err := q.Detach(someGroup); !errors.Is(err, ErrInvalid) {
		t.Errorf("got error %v, want ErrInvalid", err)
	}
	if err := q.Destroy(); err != nil {
		t.Error(err)
	}
	if err := q.Attach(someGroup); !errors.Is(err, ErrClosed) {
		t.Errorf("got error %v for one that is destroyed, want ErrClosed", err)
	}
}
