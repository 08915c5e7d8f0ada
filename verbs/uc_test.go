package verbs_test

import (
	"bytes"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
)

func unreliable(typ QPType) settings {
	s := standard()
	s.typ, s.qkey = typ, 0x1234
	return s
}

func TestUCSendArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		r.bothWays(func(from, to *end) {
			for n, size := range sizes {
				fill(from.mem[:size], n)
				to.recv(RecvWR{ID: 7, SG: []SGE{to.mr.SGE(131072, 70000)}})
				from.send(SendWR{ID: 9, Opcode: WRSendWithImm, Imm: 77, Flags: Signaled, SG: []SGE{from.mr.SGE(0, size)}})
				if wc := from.good(from.scq); wc.ID != 9 || wc.Opcode != WCSend {
					t.Errorf("got %+v, want the send", wc)
				}
				wc := to.good(to.cq)
				if wc.ID != 7 || wc.Opcode != WCRecv || int(wc.ByteLen) != size || wc.QPN != to.qp.Num() || wc.Flags != WCWithImm || wc.Imm != 77 {
					t.Errorf("got %+v, want the receive of %d bytes", wc, size)
				}
				if !bytes.Equal(to.mem[131072:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were sent", size)
				}
			}
		})
	})
}
