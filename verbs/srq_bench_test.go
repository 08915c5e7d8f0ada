package verbs_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/gantry-rdma/gantry/verbs"
)

// BenchmarkSharedReceive is a SEND of 64 bytes from post to both completions, on
// each of many queue pairs in turn, with receive queues of their own and with one
// that they share. 16 messages are on their way, and each receive is posted again
// when it has completed. The two take turns, and the medians of their blocks are
// compared: rate/own is the rate with the shared queue over that without.
func BenchmarkSharedReceive(b *testing.B) {
	for _, e := range executors {
		for _, qps := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/qps=%d", e.name, qps), func(b *testing.B) {
				da, db := pair(b, e.make())
				own, shared := newReceiving(b, da, db, qps, false), newReceiving(b, da, db, qps, true)
				const block = 2000
				var took [2][]time.Duration
				for b.Loop() {
					for i, r := range []*receiving{own, shared} {
						start := time.Now()
						r.run(b, block)
						took[i] = append(took[i], time.Since(start)/block)
					}
				}
				for i := range took {
					slices.Sort(took[i])
				}
				mo, ms := took[0][len(took[0])/2], took[1][len(took[1])/2]
				b.ReportMetric(float64(mo.Nanoseconds()), "ns/own")
				b.ReportMetric(float64(ms.Nanoseconds()), "ns/shared")
				b.ReportMetric(float64(mo)/float64(ms), "rate/own")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// A receiving is a load of messages.
type receiving struct {
	*sharer
	at   map[uint32]*QP // of side b, by number
	send []SendWR
	recv []RecvWR
	next int
}

func newReceiving(b *testing.B, da, db *Device, qps int, shared bool) *receiving {
	const deep = 64
	s := standard()
	s.cap = QPCap{MaxSendWR: 32, MaxRecvWR: deep, MaxSendSGE: 1, MaxRecvSGE: 1}
	s.cqe = 4096
	r := &receiving{sharer: share(b, da, db, s, SRQInit{MaxWR: deep, MaxSGE: 1}, 0), at: map[uint32]*QP{}}
	r.recv = []RecvWR{{SG: []SGE{r.b.mr.SGE(4096, 64)}}}
	r.send = []SendWR{{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 64)}}}
	for range qps {
		if shared {
			r.add()
		} else {
			from, to := r.a.newQP(s), r.b.newQP(s)
			connect(b, s, da, db, from, to)
			r.from, r.to = append(r.from, from), append(r.to, to)
		}
		r.at[r.to[len(r.to)-1].Num()] = r.to[len(r.to)-1]
	}
	if !shared {
		r.srq = nil
	}
	for i := range 16 * qps {
		if shared && i == deep {
			break
		}
		r.receive(b, r.to[i%qps])
	}
	return r
}

func (r *receiving) receive(b *testing.B, q *QP) {
	var err error
	if r.srq != nil {
		_, err = r.srq.PostRecv(r.recv...)
	} else {
		_, err = q.PostRecv(r.recv...)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// run moves n messages.
func (r *receiving) run(b *testing.B, n int) {
	const window = 16
	var wc [window]WC
	for sent, done, got := 0, 0, 0; done < n || got < n; {
		for sent < n && sent-done < window && sent-got < window {
			if _, err := r.from[r.next%len(r.from)].PostSend(r.send...); err != nil {
				b.Fatal(err)
			}
			sent++
			r.next++
		}
		done += r.a.scq.Poll(wc[:])
		arrived := r.b.cq.Poll(wc[:])
		for _, c := range wc[:arrived] {
			r.receive(b, r.at[c.QPN])
		}
		got += arrived
	}
}
