package verbs_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// Between two devices of one process, on one executor that may run both ends, a
// message of the common shape needs no packets, and no acknowledgement is
// counted. A program sees no difference.
func TestMessagesGoWhole(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) { checkWhole(t, x, RC) })
}

func TestMessagesGoWholeOverUC(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) { checkWhole(t, x, UC) })
}

func checkWhole(t *testing.T, x work.Executor, typ QPType) {
	da, db := pair(t, x)
	s := standard()
	s.typ = typ
	r := newRig(t, da, db, s)
	const n = 64
	for i := range n {
		r.check(i)
	}
	sent, answers := da.Counter("sent_pkts"), db.Counter("sent_pkts")
	if came := db.Counter("rcvd_pkts"); sent < n || came != sent {
		t.Errorf("%d packets are counted as sent, and %d as received, for %d messages", sent, came, n)
	}
	_, tasklet := x.(*work.Tasklet)
	whole := !tasklet && !strings.Contains(t.Name(), packets)
	// An item that is about to end a run is not entered.
	if typ == RC && whole != (answers < n/2) {
		t.Errorf("%d acknowledgements are counted for %d messages, whole is %v", answers, n, whole)
	}
}

// check sends message number i, of a kind and a length that depend on it, and
// looks at all that it leaves behind.
func (r *rig) check(i int) {
	r.t.Helper()
	size := []int{0, 1, 64, 1023, 1024, 1025, 3000, 9000}[i%8]
	from, to := r.a.mem[:size], r.b.mem[100:100+size+1]
	fill(from, i)
	fill(to, i+1)
	last := to[size]
	wr := SendWR{ID: uint64(i), Opcode: []Opcode{WRSend, WRSendWithImm, WRRDMAWrite, WRRDMAWriteWithImm}[i/8%4], Flags: Signaled,
		Imm: uint32(1000 + i), RemoteAddr: r.b.mr.Addr() + 100, RKey: r.b.mr.RKey()}
	switch {
	case size == 64 && i%3 == 0:
		wr.Flags, wr.Data = Signaled|Inline, from
	case size > 0:
		wr.SG = []SGE{r.a.mr.SGE(0, size)}
	}
	if wr.Opcode != WRRDMAWrite {
		r.b.recv(RecvWR{ID: uint64(500 + i), SG: []SGE{r.b.mr.SGE(100, size+1)}})
	}
	r.a.send(wr)
	if wc := r.a.good(r.a.scq); wc.ID != wr.ID {
		r.t.Fatalf("got completion %d, want %d", wc.ID, wr.ID)
	}
	if wr.Opcode != WRRDMAWrite {
		wc := r.b.good(r.b.cq)
		imm := wr.Opcode != WRSend
		if wc.ID != uint64(500+i) || wc.ByteLen != uint32(size) || imm != (wc.Flags == WCWithImm) || imm && wc.Imm != wr.Imm {
			r.t.Fatalf("message %d: got %+v", i, wc)
		}
	}
	if !bytes.Equal(from, to[:size]) || to[size] != last {
		r.t.Fatalf("message %d of %d bytes did not arrive as it was", i, size)
	}
}

// Both ends send to each other at once, so that runs want to enter what others
// run, while memory is registered and given up.
func TestMessagesThatMeetKeepTheirOrder(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		there, back := newRig(t, da, db, standard()), newRig(t, db, da, standard())
		var all sync.WaitGroup
		all.Go(func() { there.exchange(200) })
		all.Go(func() { back.exchange(200) })
		all.Go(func() {
			for range 50 {
				mr, err := there.b.pd.RegMR(make([]byte, 4096), AccessLocalWrite)
				if err == nil {
					err = mr.Dereg()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		all.Wait()
	})
}
