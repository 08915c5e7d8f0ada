package verbs_test

import (
	"bytes"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

func TestSendArrives(t *testing.T) {
	da, db := pair(t, work.NewInline())
	r := newRig(t, da, db, standard())
	fill(r.a.mem[:5000], 1)
	r.b.recv(RecvWR{ID: 7, SG: []SGE{r.b.mr.SGE(100, 6000)}})
	r.a.send(SendWR{ID: 9, Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 5000)}})
	if wc := r.a.good(r.a.scq); wc.ID != 9 || wc.Opcode != WCSend {
		t.Errorf("got %+v, want the send", wc)
	}
	wc := r.b.good(r.b.cq)
	if wc.ID != 7 || wc.Opcode != WCRecv || wc.ByteLen != 5000 || wc.QPN != r.b.qp.Num() {
		t.Errorf("got %+v, want the receive of 5000 bytes", wc)
	}
	if !bytes.Equal(r.b.mem[100:5100], r.a.mem[:5000]) {
		t.Error("got other bytes than were sent")
	}
}
