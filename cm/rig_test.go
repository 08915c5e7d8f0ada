package cm_test

import (
	"errors"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	. "github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A party is a program with a device and a channel. What it makes with its
// device goes away with it.
type party struct {
	t   testing.TB
	dev *verbs.Device
	ch  *Channel
	pd  *verbs.PD
	cq  *verbs.CQ
	mem []byte
	mr  *verbs.MR
	got []Event // not asked for yet
}

func newParty(t testing.TB, d *verbs.Device) *party {
	t.Helper()
	p := &party{t: t, dev: d, pd: d.AllocPD(), mem: make([]byte, 1<<16)}
	p.ch = must(Open(d))(t)
	p.cq = must(d.CreateCQ(1024, nil, nil))(t)
	p.mr = must(p.pd.RegMR(p.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead))(t)
	t.Cleanup(func() {
		if err := p.ch.Close(); err != nil && !errors.Is(err, EBADF) {
			t.Error(err)
		}
		for _, err := range []error{p.cq.Destroy(), p.mr.Dereg(), p.pd.Dealloc()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (p *party) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// limit is how long a test waits for what must come.
const limit = 20 * time.Second

// until calls step until it returns true.
func until(t testing.TB, what string, step func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !step(); {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", limit, what)
		}
		runtime.Gosched()
	}
}

// pump takes what events there are.
func (p *party) pump() {
	for e, ok := p.ch.TryNext(); ok; e, ok = p.ch.TryNext() {
		p.got = append(p.got, e)
	}
}

// A world is all the parties of a test: while one waits, the others live.
type world []*party

// next returns the next event of p, which must be of a type.
func (w world) next(p *party, want EventType) Event {
	p.t.Helper()
	until(p.t, want.String(), func() bool {
		for _, x := range w {
			x.pump()
		}
		if want != TimewaitExit && len(p.got) > 0 && p.got[0].Type == TimewaitExit {
			p.got = p.got[1:] // of one before: sooner or later, as time goes
		}
		return len(p.got) > 0
	})
	e := p.got[0]
	p.got = p.got[1:]
	if e.Type != want {
		p.t.Fatalf("got %v (%v, %v), want %v", e.Type, e.Reason, e.Err, want)
	}
	return e
}

// rc is how queue pairs are made.
func (p *party) rc() verbs.QPInit {
	return verbs.QPInit{Type: verbs.RC, SendCQ: p.cq, RecvCQ: p.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}}
}

// call brings an ID of p to where it can connect to a port of q.
func (w world) call(p *party, q *party, port uint16) *ID {
	p.t.Helper()
	id := w.unequipped(p, q, port)
	must(id.CreateQP(p.pd, p.rc()))(p.t)
	return id
}

// unequipped is call without a queue pair.
func (w world) unequipped(p *party, q *party, port uint16) *ID {
	p.t.Helper()
	id := must(p.ch.NewID(TCP, nil))(p.t)
	p.ok(id.ResolveAddr(netip.AddrPortFrom(q.dev.Addr(), port)))
	w.next(p, AddrResolved)
	p.ok(id.ResolveRoute())
	w.next(p, RouteResolved)
	return id
}

func (p *party) listen(port uint16, backlog int) *ID {
	p.t.Helper()
	id := must(p.ch.NewID(TCP, "listener"))(p.t)
	p.ok(id.Listen(netip.AddrPortFrom(p.dev.Addr(), port), backlog))
	return id
}

// usual is what most tests say.
func usual(private string) ConnParam {
	return ConnParam{PrivateData: []byte(private), ResponderResources: 4, InitiatorDepth: 4, RetryCount: 7, RNRRetry: 7}
}

// wc returns the next completion of a party, which must be a success.
func (w world) wc(p *party) verbs.WC {
	p.t.Helper()
	var wc [1]verbs.WC
	until(p.t, "a completion", func() bool {
		for _, x := range w {
			if x != p {
				x.pump()
				x.dev.Drive(0)
			}
		}
		return p.cq.Poll(wc[:]) == 1
	})
	if wc[0].Status != verbs.WCSuccess {
		p.t.Fatalf("got completion %d with %v, want success", wc[0].ID, wc[0].Status)
	}
	return wc[0]
}

// executors are those that every test of behaviour runs on.
var executors = []struct {
	name string
	make func() work.Executor
}{
	{"inline", func() work.Executor { return work.NewInline() }},
	{"tasklet", func() work.Executor { return work.NewTasklet() }},
	{"workqueue", func() work.Executor { return work.NewWorkqueue(2) }},
}

// pair opens two devices that are joined through memory.
func pair(t testing.TB, x work.Executor) (a, b *verbs.Device) {
	t.Helper()
	a, b, err := verbs.OpenPair(verbs.Config{Executor: x}, verbs.Config{Executor: x})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []*verbs.Device{a, b} {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if x != nil {
			x.Close()
		}
	})
	return a, b
}

// udp opens a device over loopback, or skips the test.
func udp(t testing.TB, addr string, x work.Executor) *verbs.Device {
	t.Helper()
	d, err := verbs.Open(verbs.Config{Addr: netip.MustParseAddr(addr), Executor: x})
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no device on %s: %v", addr, err)
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

// everywhere runs f with every executor over both fabrics.
func everywhere(t *testing.T, f func(t *testing.T, w world)) {
	for _, e := range executors {
		t.Run("memory/"+e.name, func(t *testing.T) {
			a, b := pair(t, e.make())
			f(t, world{newParty(t, a), newParty(t, b)})
		})
		t.Run("udp/"+e.name, func(t *testing.T) {
			x := e.make()
			t.Cleanup(x.Close)
			a, b := udp(t, "127.0.0.71", x), udp(t, "127.0.0.72", x)
			f(t, world{newParty(t, a), newParty(t, b)})
		})
	}
}
