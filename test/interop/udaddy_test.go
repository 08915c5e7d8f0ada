//go:build linux

package interop

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/test/interop/kit"
	"github.com/gantry-rdma/gantry/verbs"
)

// udaddy asks for several queue pairs of datagrams, moves messages to them, and
// gets as many back.
const (
	udConnections = 8
	udMessages    = 10
	udSize        = 1000
	udPort        = 7174
	udSlot        = 40 + udSize // with the GRH
)

// storms are the weather for questions and answers alone: heavy, since these are
// few.
var storms = []struct {
	name    string
	weather kit.Weather
}{
	{"loss", kit.Weather{Loss: 0.2, Seed: 1}},
	{"duplication", kit.Weather{Dup: 0.5, Seed: 2}},
	{"reordering", kit.Weather{Reorder: 0.4, Seed: 3}},
	{"corruption", kit.Weather{Corrupt: 0.25, Seed: 4}},
}

// udaddyRows find queue pairs of datagrams by the connection manager.
func (r *rig) udaddyRows(t *testing.T) {
	each(func(six, server bool) {
		if mode == "short" && six {
			return
		}
		r.run(t, fmt.Sprintf("udaddy %s %s", role(server), family(six)), good, func(x *row) { x.udaddy(six, server) })
	})
	if mode == "short" {
		return
	}
	for _, server := range []bool{false, true} {
		r.run(t, "udaddy refused "+role(server), good, func(x *row) { x.udRefuse(server) })
	}
	for _, b := range storms {
		for _, server := range []bool{false, true} {
			// The kernel forgets a question with its answer, so one that comes
			// twice is two for udaddy, which wants as many as it was told.
			if !server && b.weather.Reorder == 0 {
				continue
			}
			r.run(t, fmt.Sprintf("udaddy %s %s", role(server), b.name), b.weather, func(x *row) { x.udaddy(false, server) })
		}
	}
}

// udaddy plays with the original.
func (x *row) udaddy(six, server bool) {
	y := x.party(six)
	argv := []string{"udaddy", "-c", strconv.Itoa(udConnections), "-C", strconv.Itoa(udMessages), "-S", strconv.Itoa(udSize)}
	if server {
		l, err := y.ch.NewID(cm.UDP, nil)
		x.must(err)
		x.must(l.Listen(netip.AddrPortFrom(y.here, udPort), udConnections))
		y.end.peer = x.spawn(append(argv, "-s", y.here.String())...)
		ids := []*cm.ID{l}
		for range udConnections {
			e := y.next()
			if e.Type != cm.ConnectRequest {
				x.t.Fatalf("event %v (%v, %v), want CONNECT_REQUEST", e.Type, e.Reason, e.Err)
			}
			y.udOutfit(e.ID, len(ids))
			x.must(e.ID.Accept(cm.ConnParam{}))
			ids = append(ids, e.ID)
		}
		y.udAnswer(ids[1:])
		y.udClose(ids)
		return
	}
	y.end.peer = x.spawn(append(argv, "-b", y.peer.String())...)
	x.awaitService(strconv.Itoa(udPort))
	var ids []*cm.ID
	var to []cm.Event
	for range udConnections {
		id := y.udAsk(len(ids) + 1)
		e := y.next()
		if e.Type != cm.Established {
			x.t.Fatalf("event %v (%v, %v), want ESTABLISHED; the guest: %s", e.Type, e.Reason, e.Err, y.end.peer.Output())
		}
		ids, to = append(ids, id), append(to, e)
	}
	x.wire.SetWeather(good) // datagrams may get lost, which the original does not allow for
	for i, id := range ids {
		y.udSend(id, to[i].AH, to[i].QPN, to[i].QKey)
	}
	for n := 0; n < 2*udConnections*udMessages; n++ {
		y.udCheck(y.wait(verbs.WCSuccess))
	}
	y.udClose(ids)
}

// udOutfit makes the queue pair of an ID, with receives in a place of their own.
func (y *party) udOutfit(id *cm.ID, place int) {
	q, err := id.CreateQP(y.pd, verbs.QPInit{Type: verbs.UD, SendCQ: y.cq, RecvCQ: y.cq, SQSigAll: true,
		Cap: verbs.QPCap{MaxSendWR: udMessages, MaxRecvWR: udMessages, MaxSendSGE: 1, MaxRecvSGE: 1}})
	y.x.must(err)
	for n := range udMessages {
		_, err := q.PostRecv(verbs.RecvWR{SG: []verbs.SGE{y.mr.SGE((place*udMessages+n)*udSlot, udSlot)}})
		y.x.must(err)
	}
}

// udAsk asks for the queue pair of the peer.
func (y *party) udAsk(place int) *cm.ID {
	x := y.x
	id, err := y.ch.NewID(cm.UDP, nil)
	x.must(err)
	x.must(id.ResolveAddr(netip.AddrPortFrom(y.peer, udPort)))
	y.expect(cm.AddrResolved, 1)
	x.must(id.ResolveRoute())
	y.expect(cm.RouteResolved, 1)
	y.udOutfit(id, place)
	x.must(id.Connect(cm.ConnParam{}))
	return id
}

// udSend sends the messages of one queue pair. The original answers to the one
// that the immediate data names.
func (y *party) udSend(id *cm.ID, to verbs.AHAttr, qpn, key uint32) {
	ah, err := y.pd.CreateAH(to)
	y.x.must(err)
	q := id.QP()
	for range udMessages {
		_, err := q.PostSend(verbs.SendWR{Opcode: verbs.WRSendWithImm, Imm: q.Num(), SG: []verbs.SGE{y.mr.SGE(0, udSize)},
			AH: ah, RemoteQPN: qpn, RemoteQKey: key})
		y.x.must(err)
	}
	y.x.must(ah.Destroy())
}

// udCheck wants what came to be a whole message with the number of a queue pair.
func (y *party) udCheck(wc verbs.WC) {
	if wc.Opcode == verbs.WCRecv && (wc.ByteLen != udSlot || wc.Flags&verbs.WCWithImm == 0 || wc.Imm != wc.SrcQP) {
		y.x.t.Errorf("a message of %d bytes from %#x, flags %#x, immediate data %#x", wc.ByteLen, wc.SrcQP, wc.Flags, wc.Imm)
	}
}

// udAnswer answers the first message of each queue pair with all that the
// original waits for: with the first of all, the questions are over.
func (y *party) udAnswer(ids []*cm.ID) {
	byQPN := map[uint32]*cm.ID{}
	for _, id := range ids {
		byQPN[id.QP().Num()] = id
	}
	for len(byQPN) > 0 {
		wc := y.wait(verbs.WCSuccess)
		y.udCheck(wc)
		if id := byQPN[wc.QPN]; id != nil && wc.Opcode == verbs.WCRecv {
			y.x.wire.SetWeather(good)
			y.udSend(id, verbs.AHTo(y.peer), wc.SrcQP, 0x01234567)
			delete(byQPN, wc.QPN)
		}
	}
	y.finish()
}

// udClose ends the IDs, once the original has ended.
func (y *party) udClose(ids []*cm.ID) {
	y.finish()
	y.close(ids)
}

// udRefuse has one end ask for a port where nobody listens.
func (x *row) udRefuse(server bool) {
	y := x.party(false)
	if server {
		y.end.peer = x.spawn("udaddy", "-c", "1", "-s", y.here.String())
		err := y.end.peer.Wait(x.ctx)
		if err == nil || !strings.Contains(y.end.peer.Output(), "RDMA_CM_EVENT_UNREACHABLE, error: 1") {
			x.t.Errorf("udaddy ended with %v: %s", err, y.end.peer.Output())
		}
		return
	}
	y.end.peer = &kit.Process{}
	id := y.udAsk(1)
	if e := y.next(); e.Type != cm.Rejected || e.Reason != cm.ReasonNoListener || !errors.Is(e.Err, cm.ECONNREFUSED) {
		x.t.Errorf("event %v, reason %v (%v), want REJECTED, nobody listens", e.Type, e.Reason, e.Err)
	}
	x.must(id.Close())
}
