package verbs_test

import (
	"bytes"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
)

// datagram is a SEND of n bytes at the start of from's memory to the other end.
func (e *end) datagram(id uint64, to *end, n int) SendWR {
	return SendWR{
		ID: id, Opcode: WRSend, Flags: Signaled, SG: []SGE{e.mr.SGE(0, n)},
		AH: e.ah, RemoteQPN: to.qp.Num(), RemoteQKey: 0x1234,
	}
}

func TestUDSendArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UD))
		r.bothWays(func(from, to *end) {
			for n, size := range []int{0, 1, 3, 4, 64, 1023, 1024, 2048, 4096} {
				fill(from.mem[:size], n)
				to.recv(RecvWR{ID: 7, SG: []SGE{to.mr.SGE(131072, 5000)}})
				wr := from.datagram(9, to, size)
				wr.Opcode, wr.Imm = WRSendWithImm, 77
				from.send(wr)
				if wc := from.good(from.scq); wc.ID != 9 || wc.Opcode != WCSend {
					t.Errorf("got %+v, want the send", wc)
				}
				wc := to.good(to.cq)
				want := WC{
					ID: 7, Opcode: WCRecv, Flags: WCGRH | WCWithImm, ByteLen: uint32(size) + roce.GRHLen, Imm: 77,
					QPN: to.qp.Num(), SrcQP: from.qp.Num(),
				}
				if wc != want {
					t.Errorf("got %+v, want %+v", wc, want)
				}
				if !bytes.Equal(to.mem[131072+roce.GRHLen:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were sent", size)
				}
			}
		})
	})
}
