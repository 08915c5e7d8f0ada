package verbs_test

import (
	"fmt"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
)

// BenchmarkSharedReceive is a SEND of 64 bytes from post to both completions, on
// each of many queue pairs in turn, with receive queues of their own and with one
// that they share. 16 messages are on their way, and each receive is posted again
// when it has completed.
func BenchmarkSharedReceive(b *testing.B) {
	for _, e := range executors {
		for _, qps := range []int{1, 1000} {
			for _, shared := range []bool{false, true} {
				name := fmt.Sprintf("%s/qps=%d/own", e.name, qps)
				if shared {
					name = fmt.Sprintf("%s/qps=%d/shared", e.name, qps)
				}
				b.Run(name, func(b *testing.B) {
					da, db := pair(b, e.make())
					receives(b, da, db, qps, shared)
				})
			}
		}
	}
}

func receives(b *testing.B, da, db *Device, qps int, shared bool) {
	const window, deep = 16, 64
	s := standard()
	s.cap = QPCap{MaxSendWR: 32, MaxRecvWR: deep, MaxSendSGE: 1, MaxRecvSGE: 1}
	s.cqe = 4096
	x := share(b, da, db, s, SRQInit{MaxWR: deep, MaxSGE: 1}, 0)
	at := map[uint32]*QP{}
	recv := []RecvWR{{SG: []SGE{x.b.mr.SGE(4096, 64)}}}
	post := func(q *QP) (int, error) { return q.PostRecv(recv...) }
	if shared {
		post = func(*QP) (int, error) { return x.srq.PostRecv(recv...) }
	}
	for range qps {
		if shared {
			x.add()
		} else {
			from, to := x.a.newQP(s), x.b.newQP(s)
			connect(b, s, da, db, from, to)
			x.from, x.to = append(x.from, from), append(x.to, to)
		}
		at[x.to[len(x.to)-1].Num()] = x.to[len(x.to)-1]
	}
	for i := range qps * window {
		if shared && i == deep {
			break
		}
		if _, err := post(x.to[i%qps]); err != nil {
			b.Fatal(err)
		}
	}
	send := []SendWR{{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 64)}}}
	var wc [window]WC
	sent, done, got := 0, 0, 0
	b.ReportAllocs()
	for b.Loop() {
		for sent-done < window && sent-got < window {
			if _, err := x.from[sent%qps].PostSend(send...); err != nil {
				b.Fatal(err)
			}
			sent++
		}
		for n := done + got; done+got == n; {
			done += x.a.scq.Poll(wc[:])
			arrived := x.b.cq.Poll(wc[:])
			for _, c := range wc[:arrived] {
				if _, err := post(at[c.QPN]); err != nil {
					b.Fatal(err)
				}
			}
			got += arrived
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/message")
}
