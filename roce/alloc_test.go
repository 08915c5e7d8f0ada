package roce

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestReceivingAllocatesNothing(t *testing.T) {
	ip := assemble(t, Path{Src: ends4[0], Dst: ends4[1], Ident: Ident{ID: 999, DF: true}}, RCWriteOnlyImm, make([]byte, 1000))
	line := make([]byte, 0, lineSize)
	good := 0
	allocs.None(t, func() {
		d, _ := ParseIP(ip)
		p, _ := Parse(d.Payload())
		f, _ := NewFlow(d.Src(), d.Dst())
		if id, ok := f.Check(p, Segment(0)); ok && id == d.Ident() && d.Valid() {
			good++
		}
		good += int(p.RETH().DMALen()) + int(p.ImmDt().Value()) + len(p.Payload())
		line = p.Append(line[:0])
	})
	if good == 0 {
		t.Error("got no packet")
	}
}

func TestSendingAllocatesNothing(t *testing.T) {
	payload := make([]byte, 1000)
	f, _ := NewFlow(ends4[0], ends4[1])
	path := Path{Src: ends4[0], Dst: ends4[1]}
	sum := 0
	allocs.None(t, func() {
		var head [HeadSize]byte // stays on the stack: headers never escape
		h := Build(&head, RCWriteFirst)
		h.BTH().SetPSN(5)
		h.RETH().Set(1, 2, 3)
		var tail [ICRCLen]byte
		f.Start(h, len(payload), Segment(1)).Add(payload[:500]).Add(payload[500:]).AddPad(2).Put(&tail)
		var net [Room]byte
		var g GRH
		sum += path.Put(&net, 1000) + int(tail[0]) + int(head[0])
		if path.PutGRH(&g, 1000) {
			sum += int(g[20])
		}
	})
	if sum == 0 {
		t.Error("got nothing")
	}
}
