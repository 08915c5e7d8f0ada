package nic

import (
	"runtime"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// taken takes n entries of a queue, and drives or waits until they are there.
// All must be successes.
func (q *CQ) taken(t testing.TB, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); n > 0; {
		a, b := q.Take(n)
		for _, e := range append(a[:len(a):len(a)], b...) {
			if e.Status != qp.StatusSuccess {
				t.Errorf("got status %v", e.Status)
			}
		}
		if got := len(a) + len(b); got > 0 {
			n -= got
			q.Done(got)
			continue
		}
		if time.Now().After(end) {
			t.Fatalf("%d completions did not come", n)
		}
		runtime.Gosched()
	}
}

// exchange sends n messages, one after the other.
func exchange(t testing.TB, a, b *end, n int) {
	t.Helper()
	for range n {
		b.receive(t, 1)
		a.post(t, qp.OpSend, 1, 64, b)
		a.sq.taken(t, 1)
		b.rq.taken(t, 1)
	}
}

// Messages go whole where one executor may run both halves, and in packets where
// not: an acknowledgement tells which.
func TestWhereMessagesGoWhole(t *testing.T) {
	const n = 50
	for _, c := range []struct {
		name  string
		make  func() (work.Executor, work.Executor)
		wrap  func(link.Link) link.Link
		whole bool
	}{
		{"inline", func() (work.Executor, work.Executor) { x := work.NewInline(); return x, x }, nil, true},
		{"a work queue", func() (work.Executor, work.Executor) { x := work.NewWorkqueue(2); return x, x }, nil, true},
		{"a work queue of one", func() (work.Executor, work.Executor) { x := work.NewWorkqueue(1); return x, x }, nil, true},
		{"two work queues", func() (work.Executor, work.Executor) { return work.NewWorkqueue(1), work.NewWorkqueue(1) }, nil, false},
		{"a tasklet", func() (work.Executor, work.Executor) { x := work.NewTasklet(); return x, x }, nil, false},
		{"a work queue and a tasklet", func() (work.Executor, work.Executor) { return work.NewWorkqueue(1), work.NewTasklet() }, nil, false},
		{"a work queue, watched", func() (work.Executor, work.Executor) { x := work.NewWorkqueue(2); return x, x },
			func(l link.Link) link.Link { return &watched{Link: l} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			xa, xb := c.make()
			a, b := newEndsOn(t, c.wrap, xa, xb)
			exchange(t, a, b, n)
			exchange(t, b, a, n)
			sent, answers := a.d.counter("sent_pkts"), b.d.counter("sent_pkts")
			if sent < n || answers < n {
				t.Errorf("%d and %d packets are counted, want at least %d each", sent, answers, n)
			}
			// In packets each side has acknowledged as well. An item that is about to
			// end a run is not entered.
			if whole := sent+answers < 2*n+n/2; whole != c.whole {
				t.Errorf("%d packets are counted for %d messages: whole is %v, want %v", sent+answers, 2*n, whole, c.whole)
			}
			if s, r := a.d.counter("sent_bytes"), b.d.counter("rcvd_bytes"); s != r || s < n*(64+roce.BTHLen) {
				t.Errorf("%d bytes are sent and %d received", s, r)
			}
		})
	}
}

// A READ lets none of the messages behind it pass, and each kind may follow the other.
func TestMessagesThatGoWholeKeepTheirPlaceAmongPackets(t *testing.T) {
	for _, x := range []work.Executor{work.NewInline(), work.NewWorkqueue(2)} {
		t.Run(x.String(), func(t *testing.T) {
			a, b := newEndsOn(t, nil, x, x)
			for i := range 300 {
				a.cut = i%3 == 1
				b.receive(t, 2)
				a.post(t, qp.OpSend, 1, 64, b)
				a.post(t, qp.OpRead, 1, 100+i, b)
				a.cut = false
				a.post(t, qp.OpSend, 1, 64, b)
				a.post(t, qp.OpWrite, 1, 3000, b)
				a.sq.taken(t, 4)
				b.rq.taken(t, 2)
			}
			if n := b.d.counter("out_of_seq_request") + b.d.counter("duplicate_request"); n != 0 {
				t.Errorf("%d packets came out of their order", n)
			}
		})
	}
}

// Who is gone, or has another view, gets nothing; who is back gets it again.
func TestANeighbourIsLookedForAnew(t *testing.T) {
	for _, x := range []work.Executor{work.NewInline(), work.NewWorkqueue(2)} {
		t.Run(x.String(), func(t *testing.T) {
			a, b := newEndsOn(t, nil, x, x)
			exchange(t, a, b, 3)
			for range 20 {
				for _, e := range [...]*end{a, b} {
					if err := e.q.ToReset(); err != nil {
						t.Fatal(err)
					}
				}
				a.connect(b)
				b.connect(a)
				exchange(t, a, b, 3)
			}
			old := a.q.send.met.half
			if old == nil || old.q != b.q {
				t.Fatal("the two do not know each other")
			}
			b.q.ToErr()
			b.receive(t, 1)
			before := b.d.counter("drop_qp_state")
			a.post(t, qp.OpSend, 1, 64, b)
			for end := time.Now().Add(10 * time.Second); b.d.counter("drop_qp_state") == before; a.d.Drive(0) {
				if time.Now().After(end) {
					t.Fatal("a queue pair in error did not drop what came")
				}
			}
		})
	}
}

// A device that is closed has no neighbour, and leaves none behind.
func TestNobodyIsLeftInTheListOfEnds(t *testing.T) {
	x := work.NewWorkqueue(1)
	defer x.Close()
	la, lb := link.NewPair(link.PairConfig{})
	a, err := Open(Config{Link: la, Executor: x})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(Config{Link: lb, Executor: x})
	if err != nil {
		t.Fatal(err)
	}
	if a.beside.Load() != b || b.beside.Load() != a {
		t.Error("two ends do not know each other")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if b.beside.Load() != nil {
		t.Error("a device is beside one that is closed")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	ends.Lock()
	defer ends.Unlock()
	if ends.of[la] != nil || ends.of[lb] != nil {
		t.Error("closed devices are in the list")
	}
}

// Between the look at a queue pair and the moment at which its half is entered it
// may have begun another life, or got something to do that comes first.
func TestNobodyEntersWhoHasChanged(t *testing.T) {
	x := work.NewWorkqueue(1)
	a, b := newEndsOn(t, nil, x, x)
	exchange(t, a, b, 3)
	r, v := &b.q.recv, b.q.view.Load()
	for until := time.Now().Add(10 * time.Second); r.item.State() != work.Idle; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatal("the half is never idle")
		}
	}
	under := func() int64 { return r.out.any[0].Load() + r.out.any[1].Load() }
	before := under() // a frame that came back counts until the next run
	enters := func() bool {
		in := r.enter(v)
		if in {
			r.leave()
		}
		if n := under(); n != before {
			t.Errorf("%d runs count as under way", n-before)
		}
		return in
	}
	if !enters() {
		t.Error("a half that is idle was not entered")
	}
	for _, c := range []struct {
		name     string
		do, undo func()
	}{
		{"another view", func() { other := *v; b.q.view.Store(&other) }, func() { b.q.view.Store(v) }},
		{"a packet that waits", func() { r.pending = new(frame.Frame) }, func() { r.pending = nil }},
		{"a command", func() { r.commands.Store(cmdFail) }, func() { r.commands.Store(0) }},
		{"a run of its own", func() { r.item.Enter() }, func() { r.item.Leave() }},
	} {
		if c.do(); enters() {
			t.Errorf("a half with %s was entered", c.name)
		}
		c.undo()
	}
	if !enters() {
		t.Error("a half that is idle again was not entered")
	}
}

// What lets packets in, and where they go, counts for messages that go whole.
func TestWhoIsANeighbour(t *testing.T) {
	x := work.NewInline()
	a, b := newEndsOn(t, nil, x, x)
	a.d.driveIdle()
	exchange(t, a, b, 2)
	s, qpn := &a.q.send, b.q.num
	mine, theirs := a.q.view.Load(), b.q.view.Load()
	if s.neighbour(qpn) != &b.q.recv {
		t.Fatal("the peer is not known")
	}
	elsewhere := frame.Addr{IP: [16]byte{15: 9}, Port: theirs.peer.Port}
	for _, c := range []struct {
		name   string
		mine   func(*view)
		theirs func(*view)
		qpn    uint32
	}{
		{name: "another number", qpn: qpn + 1},
		{name: "packets that go elsewhere", mine: func(v *view) { v.peer = elsewhere }},
		{name: "a peer that takes no requests", theirs: func(v *view) { v.requests = false }},
		{name: "a peer that expects another", theirs: func(v *view) { v.peer = elsewhere }},
		{name: "a peer with another address", theirs: func(v *view) { v.local = elsewhere }},
		{name: "a peer in another partition", theirs: func(v *view) { v.pkey = 0x8001 }},
	} {
		for _, known := range []bool{true, false} {
			m, th, n := *mine, *theirs, qpn
			if c.mine != nil {
				c.mine(&m)
				a.q.view.Store(&m)
			}
			if c.theirs != nil {
				c.theirs(&th)
				b.q.view.Store(&th)
			}
			if c.qpn != 0 {
				n = c.qpn
			}
			if s.met = (acquaintance{}); known {
				s.met = acquaintance{&b.q.recv.half, mine, theirs}
			}
			if s.neighbour(n) != nil {
				t.Errorf("%s is a neighbour, known before: %v", c.name, known)
			}
			a.q.view.Store(mine)
			b.q.view.Store(theirs)
		}
	}
	if s.neighbour(qpn) != &b.q.recv {
		t.Error("the peer is not known again")
	}
}

// A queue pair with an executor of its own is not of the circle of its device.
func TestAQueuePairOfAnotherExecutorIsNoNeighbour(t *testing.T) {
	x, own := work.NewInline(), work.NewWorkqueue(1)
	defer own.Close()
	a, b := newEndsOn(t, nil, x, x)
	q, err := b.d.NewQP(QPConfig{PD: b.pd, Transport: roce.RC, SendCQ: b.sq, RecvCQ: b.rq, SendDepth: 1, RecvDepth: 1, Executor: own})
	if err != nil {
		t.Fatal(err)
	}
	b.q = q
	b.connect(a)
	a.q.ToReset()
	a.connect(b)
	if a.q.send.neighbour(q.num) != nil {
		t.Error("the driver of a circle would run what is not of it")
	}
}

// The memory of a WRITE is of the domain of the queue pair, that of a receive of
// the domain of its queue.
func TestWhatATryOpens(t *testing.T) {
	x := work.NewInline()
	a, b := newEndsOn(t, nil, x, x)
	other := b.d.NewPD()
	mr, err := other.Register(make([]byte, 64), qp.LocalWrite|qp.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	r := &b.q.recv
	own := r.pd
	defer func() { r.pd = own }()
	r.pd = other
	for _, c := range []struct {
		name string
		mr   *MR
		need qp.Access
		want bool
	}{
		{"a receive of its own queue", mr, qp.LocalWrite, true},
		{"a receive of the queue pair's domain", b.mr, qp.LocalWrite, false},
		{"a WRITE of the queue's domain", mr, qp.RemoteWrite, false},
		{"a WRITE of the queue pair's domain", b.mr, qp.RemoteWrite, true},
	} {
		if _, ok := r.Try(c.mr.Key(), c.mr.Addr(), 8, c.need); ok != c.want {
			t.Errorf("%s: got %v, want %v", c.name, ok, c.want)
		}
	}
	if _, ok := a.q.send.Try(a.mr.Key(), a.mr.Addr(), 1<<16+1, 0); ok {
		t.Error("a byte behind a region was opened")
	}
	if n := b.d.counter("key_domain") + a.d.counter("key_range"); n != 0 {
		t.Errorf("%d tries are counted as faults", n)
	}
}
