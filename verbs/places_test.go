package verbs_test

import (
	"strconv"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// Who sees a completion may use its place in the queue at once, however
// completions are handed over.
func TestAPlaceIsFreeWhenItsCompletionIsSeen(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := standard()
		s.cap.MaxSendWR, s.cap.MaxRecvWR = 20, 20
		r := newRig(t, da, db, s)
		recv := []RecvWR{{SG: []SGE{r.b.mr.SGE(0, 8)}}}
		send := []SendWR{{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 8)}}}
		for range 20 {
			r.b.recv(recv...)
			r.a.send(send...)
		}
		sent, done := 20, 0
		var wc [1]WC
		until(t, "all completions", func() bool {
			if r.b.cq.Poll(wc[:]) == 1 {
				r.b.recv(recv...) // fails the test when the queue is full
			}
			if r.a.scq.Poll(wc[:]) == 1 {
				if done++; sent < 500 {
					r.a.send(send...)
					sent++
				}
			}
			return done == 500
		})
	})
}

// BenchmarkSendEach is one message on each of many queue pairs per turn, from
// post to both completions.
func BenchmarkSendEach(b *testing.B) {
	for _, qps := range []int{1, 64, 1024, 4096} {
		b.Run("qps="+strconv.Itoa(qps), func(b *testing.B) {
			da, db := pair(b, work.NewInline())
			s := standard()
			s.cap = QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}
			s.cqe, s.mem = 2*qps, 64*qps
			r := newRig(b, da, db, s)
			from, to := []*QP{r.a.qp}, []*QP{r.b.qp}
			for n := 1; n < qps; n++ {
				from, to = append(from, r.a.newQP(s)), append(to, r.b.newQP(s))
				connect(b, s, da, db, from[n], to[n])
			}
			var wc [64]WC
			b.ReportAllocs()
			turns := 0
			for b.Loop() {
				turns++
				for n := range qps {
					_, errR := to[n].PostRecv(RecvWR{SG: []SGE{r.b.mr.SGE(64*n, 64)}})
					_, errS := from[n].PostSend(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(64*n, 64)}})
					if errR != nil || errS != nil {
						b.Fatal(errR, errS)
					}
				}
				for done, got := 0, 0; done < qps || got < qps; {
					done += r.a.scq.Poll(wc[:])
					got += r.b.cq.Poll(wc[:])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(turns*qps), "ns/message")
		})
	}
}
