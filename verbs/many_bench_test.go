package verbs_test

import (
	"strconv"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

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
