//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/verbs"
)

// connPort is where the program conn of the guest listens, or calls.
const connPort = 7475

// connRows connect with the program conn in the guest, one time after another.
func (r *rig) connRows(t *testing.T) {
	uc := cycles{kind: verbs.UC, n: 5, messages: 10, size: 3000}
	each(func(six, server bool) {
		if mode == "short" && six {
			return
		}
		r.run(t, fmt.Sprintf("cm uc %s %s", role(server), family(six)), good, func(x *row) { x.cycle(uc, six, server) })
	})
	if mode == "short" {
		return
	}
	for _, b := range bad {
		each(func(six, server bool) { // a connection gets lost as little over UC; messages do
			r.run(t, fmt.Sprintf("cm uc %s %s %s", role(server), family(six), b.name), b.weather, func(x *row) {
				x.cycle(cycles{kind: verbs.UC, n: 20}, six, server)
			})
		})
	}
	for _, server := range []bool{false, true} {
		r.run(t, "cm 1000 connections "+role(server), good, func(x *row) {
			x.cycle(cycles{kind: verbs.RC, n: 1000, messages: 1, size: 100}, false, server)
		})
	}
}

// Cycles say what is done in a row of connections.
type cycles struct {
	kind     verbs.QPType
	n        int
	messages int // there and back, in each
	size     int
}

// cycle connects n times. Nothing is left of it: not here, not in the kernel,
// and no connection is taken for one of before.
func (x *row) cycle(w cycles, six, server bool) {
	y := x.party(six)
	argv := []string{nameOf(w.kind), y.peer.String(), strconv.Itoa(connPort), strconv.Itoa(w.n), strconv.Itoa(w.messages), strconv.Itoa(w.size)}
	before, theirs := take(), x.tool("rdma", "resource", "show")
	begin := time.Now()
	if server {
		l, err := y.ch.NewID(spaceOf(w.kind), nil)
		x.must(err)
		x.must(l.Listen(netip.AddrPortFrom(y.here, connPort), 8))
		argv[1] = y.here.String()
		y.end.peer = x.spawn(append([]string{"conn", "call"}, argv...)...)
		for i := range w.n {
			y.serve(w, i)
		}
		y.finish()
		x.must(l.Close())
	} else {
		y.end.peer = x.spawn(append([]string{"conn", "serve"}, argv...)...)
		x.must(y.end.peer.Await(x.ctx, "listening"))
		for range w.n {
			y.visit(w)
		}
		y.finish()
	}
	if w.n >= 1000 {
		x.note = fmt.Sprintf("%d connections a second", int(float64(w.n)/time.Since(begin).Seconds()))
	}
	for _, c := range y.ch.Counters() {
		if c.Value > 0 && strings.HasPrefix(c.Name, "reject") {
			x.t.Errorf("%s is %d", c.Name, c.Value)
		}
	}
	x.nothingLeft(w, before, theirs)
	x.gone = true // acknowledgements that come when the kernel's queue pair has gone
}

// spaceOf is the port space for a transport service.
func spaceOf(kind verbs.QPType) cm.PortSpace {
	if kind == verbs.UC {
		return cm.IB
	}
	return cm.TCP
}

// A measure is what could grow.
type measure struct{ goroutines, files, heap int }

func take() measure {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd") // none, if it cannot be read
	return measure{runtime.NumGoroutine(), len(files), int(m.HeapAlloc)}
}

// nothingLeft compares what there is with what there was. The kernel gives up
// what a program had a moment after its end. A connection whose time-wait is not
// over takes a little memory here.
func (x *row) nothingLeft(w cycles, before measure, theirs string) {
	x.t.Helper()
	const room, ofEach = 1 << 20, 2048
	var after measure
	for tick := time.Tick(100 * time.Millisecond); ; {
		after = take()
		now := x.tool("rdma", "resource", "show")
		if after.goroutines <= before.goroutines+3 && after.files <= before.files && after.heap <= before.heap+room+w.n*ofEach && now == theirs {
			return
		}
		select {
		case <-tick:
		case <-x.ctx.Done():
			x.t.Fatalf("%+v before and %+v after; the kernel had %s and has %s", before, after, theirs, now)
		}
	}
}

// outfit gives an ID its queue pair, and with a receive if there are messages.
func (y *party) outfit(id *cm.ID, w cycles) {
	q, err := id.CreateQP(y.pd, verbs.QPInit{Type: w.kind, SendCQ: y.cq, RecvCQ: y.cq, SQSigAll: true,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	y.x.must(err)
	y.qp = q
	if w.messages > 0 {
		y.receive(0, memory/2)
	}
}

// visit connects, lets messages go there and back, and disconnects.
func (y *party) visit(w cycles) {
	x := y.x
	x.t.Helper()
	id, err := y.ch.NewID(spaceOf(w.kind), nil)
	x.must(err)
	x.must(id.ResolveAddr(netip.AddrPortFrom(y.peer, connPort)))
	y.expect(cm.AddrResolved, 1)
	x.must(id.ResolveRoute())
	y.expect(cm.RouteResolved, 1)
	y.outfit(id, w)
	x.must(id.Connect(cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetry: 7}))
	y.expect(cm.Established, 1)
	for n := range w.messages {
		y.speak(w, n)
		y.hear(w, n)
	}
	x.must(id.Disconnect())
	y.expect(cm.Disconnected, 1)
	x.must(id.Close())
}

// serve accepts a connection, sends back what comes, until the peer disconnects.
func (y *party) serve(w cycles, i int) {
	x := y.x
	x.t.Helper()
	e := y.next()
	if e.Type != cm.ConnectRequest {
		x.t.Fatalf("cycle %d: event %v (%v, %v), want CONNECT_REQUEST", i, e.Type, e.Reason, e.Err)
	}
	id := e.ID
	y.outfit(id, w)
	x.must(id.Accept(cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RNRRetry: 7}))
	for n := range w.messages {
		y.hear(w, n)
		if n == 0 {
			x.must(id.NotifyEstablished())
		}
		y.speak(w, n)
	}
	for e = y.next(); e.Type == cm.Established; e = y.next() {
		continue
	}
	if e.Type != cm.Disconnected {
		x.t.Fatalf("cycle %d: event %v (%v, %v), want DISCONNECTED", i, e.Type, e.Reason, e.Err)
	}
	x.must(id.Close())
}

// message is message n of the program conn.
func message(w cycles, n int) []byte {
	b := make([]byte, w.size)
	for i := range b {
		b[i] = byte(n + 7*i)
	}
	return b
}

// speak sends message n.
func (y *party) speak(w cycles, n int) {
	copy(y.mem[memory/2:], message(w, n))
	y.post(y.send(memory/2, w.size))
}

// hear waits for message n, and makes room for the next one. Completions of what
// was sent, here or over a connection before, it passes over.
func (y *party) hear(w cycles, n int) {
	y.x.t.Helper()
	for {
		wc := y.waitAny()
		switch {
		case wc.QPN != y.qp.Num() || wc.Opcode != verbs.WCRecv && wc.Status == verbs.WCSuccess:
			continue
		case wc.Status != verbs.WCSuccess:
			y.x.t.Fatalf("message %d: completed with %v; the guest: %s", n, wc.Status, y.end.peer.Output())
		case !bytes.Equal(y.mem[:wc.ByteLen], message(w, n)):
			y.x.t.Fatalf("message %d has %d other bytes", n, wc.ByteLen)
		}
		if n+1 < w.messages {
			y.receive(0, memory/2)
		}
		return
	}
}
