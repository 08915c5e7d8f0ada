//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/test/interop/kit"
	"github.com/gantry-rdma/gantry/verbs"
)

// ucmatose connects several times at once, moves messages first from the server
// to the client and then back, and disconnects.
const (
	cmConnections = 4
	cmMessages    = 10
	cmSize        = 3000
	cmPort        = 7471
)

// cmRows connect through the connection manager.
func (r *rig) cmRows(t *testing.T) {
	each(func(six, server bool) {
		r.run(t, fmt.Sprintf("cm %s %s", role(server), family(six)), good, func(x *row) { x.connect(six, server) })
	})
	for _, server := range []bool{false, true} {
		r.run(t, "cm refused "+role(server), good, func(x *row) { x.refuse(server) })
	}
	for _, b := range bad {
		each(func(six, server bool) {
			if mode == "short" && (six || b.weather.Loss == 0) {
				return
			}
			r.run(t, fmt.Sprintf("cm %s %s %s", role(server), family(six), b.name), b.weather, func(x *row) { x.connect(six, server) })
		})
	}
}

// A party is Gantry's end of ucmatose.
type party struct {
	*end
	ch   *cm.Channel
	here netip.Addr // this end
	peer netip.Addr // the guest
}

// party opens a device and its connection manager.
func (x *row) party(six bool) *party {
	y := &party{end: &end{x: x}, here: host4, peer: guest4}
	if six {
		y.here, y.peer = host6, guest6
	}
	y.openDevice(y.here)
	var err error
	y.ch, err = cm.Open(y.dev)
	x.must(err)
	x.after(func() {
		for _, c := range y.ch.Counters() {
			if c.Value > 0 {
				x.ours["cm_"+c.Name] = c.Value
			}
		}
		if err := y.ch.Close(); err != nil {
			x.t.Error(err)
		}
	})
	return y
}

// connect plays ucmatose with the original.
func (x *row) connect(six, server bool) {
	y := x.party(six)
	argv := []string{"ucmatose", "-c", strconv.Itoa(cmConnections), "-C", strconv.Itoa(cmMessages), "-S", strconv.Itoa(cmSize)}
	if server {
		l, err := y.ch.NewID(cm.TCP, nil)
		x.must(err)
		x.must(l.Listen(netip.AddrPortFrom(y.here, cmPort), 8))
		y.end.peer = x.spawn(append(argv, "-s", y.here.String())...)
		ids := y.accept()
		y.sendAll(ids)
		y.waitAll(2 * cmConnections * cmMessages)
		for _, id := range ids {
			x.must(id.Disconnect())
		}
		y.expect(cm.Disconnected, cmConnections)
		y.close(append(ids, l))
	} else {
		y.end.peer = x.spawn(append(argv, "-b", y.peer.String())...)
		var ids []*cm.ID
		for range cmConnections {
			ids = append(ids, y.call())
		}
		y.waitAll(cmConnections * cmMessages)
		y.sendAll(ids)
		y.waitAll(cmConnections * cmMessages)
		y.expect(cm.Disconnected, cmConnections)
		y.close(ids)
	}
	y.finish()
}

// next returns the next event that is not one of those that end a time-wait.
func (y *party) next() cm.Event {
	y.x.t.Helper()
	for {
		e, err := y.ch.Next(y.x.ctx)
		if err != nil {
			y.x.t.Fatalf("%v; the guest: %s", errors.Join(err, context.Cause(y.x.ctx)), y.end.peer.Output())
		}
		if e.Type != cm.TimewaitExit {
			return e
		}
	}
}

// expect waits for n events of one kind.
func (y *party) expect(kind cm.EventType, n int) {
	y.x.t.Helper()
	for range n {
		if e := y.next(); e.Type != kind {
			y.x.t.Fatalf("event %v (%v, %v), want %v; the guest: %s", e.Type, e.Reason, e.Err, kind, y.end.peer.Output())
		}
	}
}

// equip makes the queue pair of an ID, with receives.
func (y *party) equip(id *cm.ID) {
	q, err := id.CreateQP(y.pd, verbs.QPInit{Type: verbs.RC, SendCQ: y.cq, RecvCQ: y.cq, SQSigAll: true,
		Cap: verbs.QPCap{MaxSendWR: cmMessages, MaxRecvWR: cmMessages, MaxSendSGE: 1, MaxRecvSGE: 1}})
	y.x.must(err)
	for range cmMessages {
		_, err := q.PostRecv(verbs.RecvWR{SG: []verbs.SGE{y.mr.SGE(0, cmSize)}})
		y.x.must(err)
	}
}

// accept accepts all connections.
func (y *party) accept() (ids []*cm.ID) {
	for established := 0; established < cmConnections; {
		switch e := y.next(); e.Type {
		case cm.ConnectRequest:
			y.equip(e.ID)
			y.x.must(e.ID.Accept(cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RNRRetry: 7}))
			ids = append(ids, e.ID)
		case cm.Established:
			established++
		default:
			y.x.t.Fatalf("event %v (%v, %v)", e.Type, e.Reason, e.Err)
		}
	}
	return ids
}

// call connects, again and again while the program in the guest does not listen
// yet.
func (y *party) call() *cm.ID {
	x := y.x
	for tick := time.Tick(100 * time.Millisecond); ; <-tick {
		id, err := y.ch.NewID(cm.TCP, nil)
		x.must(err)
		x.must(id.ResolveAddr(netip.AddrPortFrom(y.peer, cmPort)))
		y.expect(cm.AddrResolved, 1)
		x.must(id.ResolveRoute())
		y.expect(cm.RouteResolved, 1)
		y.equip(id)
		x.must(id.Connect(cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetry: 7}))
		switch e := y.next(); {
		case e.Type == cm.Established:
			return id
		case e.Type != cm.Rejected || e.Reason != cm.ReasonNoListener:
			x.t.Fatalf("event %v (%v, %v), want ESTABLISHED", e.Type, e.Reason, e.Err)
		}
		x.must(id.Close())
		y.drainFlushed()
	}
}

// drainFlushed takes the receives of a queue pair that never was connected.
func (y *party) drainFlushed() {
	var wc [64]verbs.WC
	for y.cq.Poll(wc[:]) > 0 {
		continue
	}
}

// sendAll sends the messages of each connection.
func (y *party) sendAll(ids []*cm.ID) {
	for _, id := range ids {
		for range cmMessages {
			_, err := id.QP().PostSend(verbs.SendWR{Opcode: verbs.WRSend, SG: []verbs.SGE{y.mr.SGE(8192, cmSize)}})
			y.x.must(err)
		}
	}
}

// waitAll waits for n completions.
func (y *party) waitAll(n int) {
	y.x.t.Helper()
	for range n {
		y.wait(verbs.WCSuccess)
	}
}

func (y *party) close(ids []*cm.ID) {
	for _, id := range ids {
		y.x.must(id.Close())
	}
}

// refuse has one end connect to a port where nobody listens.
func (x *row) refuse(server bool) {
	y := x.party(false)
	if server {
		y.end.peer = x.spawn("ucmatose", "-c", "1", "-s", y.here.String())
		err := y.end.peer.Wait(x.ctx)
		if err == nil || !strings.Contains(y.end.peer.Output(), "RDMA_CM_EVENT_REJECTED, error: 8") {
			x.t.Errorf("ucmatose ended with %v: %s", err, y.end.peer.Output())
		}
		return
	}
	id, err := y.ch.NewID(cm.TCP, nil)
	x.must(err)
	y.end.peer = &kit.Process{}
	x.must(id.ResolveAddr(netip.AddrPortFrom(y.peer, cmPort)))
	y.expect(cm.AddrResolved, 1)
	x.must(id.ResolveRoute())
	y.expect(cm.RouteResolved, 1)
	y.equip(id)
	x.must(id.Connect(cm.ConnParam{RetryCount: 7, RNRRetry: 7}))
	if e := y.next(); e.Type != cm.Rejected || e.Reason != cm.ReasonNoListener {
		x.t.Errorf("event %v, reason %v, want REJECTED, nobody listens", e.Type, e.Reason)
	}
	x.must(id.Close())
}
