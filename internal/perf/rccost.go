package perf

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// How many waves of posts are timed. After one from which something is lost
// there is a pause.
const (
	postRounds      = 51
	lossyPostRounds = 7
)

// postCost returns how long PostSend takes for one message, in nanoseconds. The
// work requests are ready, and as many are posted one by one as the queue
// holds; what they cause is done afterwards.
func (r *rcRun) postCost() (float64, error) {
	e, f := r.a, &r.a.flows[0]
	e.prepare(e.test.SendDepth)
	defer e.prepare(e.test.List)
	ns := make([]float64, 0, postRounds)
	rounds := postRounds
	if e.lossy {
		rounds = lossyPostRounds
	}
	for range rounds {
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		took, err := r.postWave(f, e.test.SendDepth)
		if err != nil {
			return 0, err
		}
		ns = append(ns, float64(took.Nanoseconds())/float64(e.test.SendDepth))
	}
	return median(ns), nil
}

// postWave posts n messages and times that, lets them complete and verifies.
// The other flows move as many.
func (r *rcRun) postWave(f *flow, n int) (time.Duration, error) {
	if r.begin(n, false); r.failed != nil {
		return 0, r.failed
	}
	if r.a.test.IsLatency() {
		f.goal += uint64(n)
		r.a.left += n
	}
	for k := range n {
		r.a.build(0, f, k, f.posted+uint64(k))
	}
	start := time.Now()
	for k := range n {
		if _, err := f.qp.PostSend(r.a.wrs[k : k+1]...); err != nil {
			return 0, fmt.Errorf("post: %w", err)
		}
	}
	took := time.Since(start)
	f.posted += uint64(n)
	r.fail(r.drive(r.moved))
	r.finish()
	return took, r.failed
}

// idleQPs is how many queue pairs are made to see what one takes.
const idleQPs = 256

// MeasureIdleQP returns how many bytes a connected queue pair takes that has
// nothing to do, with queues of 16 and one scatter entry: what the heap and the
// system's pages grow by, over 256 of them.
func MeasureIdleQP() (bytes float64, err error) {
	x := work.NewInline()
	defer x.Close()
	a, b, err := verbs.OpenPair(verbs.Config{Executor: x}, verbs.Config{Executor: x})
	if err != nil {
		return 0, err
	}
	defer func() { core.KeepFirst(&err, a.Close()); core.KeepFirst(&err, b.Close()) }()
	pd := a.AllocPD()
	defer func() { core.KeepFirst(&err, pd.Dealloc()) }()
	cq, err := a.CreateCQ(16, nil, nil)
	if err != nil {
		return 0, err
	}
	defer func() { core.KeepFirst(&err, cq.Destroy()) }()
	qps := make([]*verbs.QP, 0, idleQPs)
	defer func() {
		for _, q := range qps {
			core.KeepFirst(&err, q.Destroy())
		}
	}()
	before := heapInUse()
	for range idleQPs {
		q, err := idleQP(pd, cq, verbs.AVTo(b.Addr()))
		if err != nil {
			return 0, err
		}
		qps = append(qps, q)
	}
	after := heapInUse()
	runtime.KeepAlive(qps)
	return float64(after-before) / idleQPs, nil
}

// heapInUse returns the bytes of the objects that are alive.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the second one frees what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// idleQP makes a queue pair in state RTS. Its peer does not exist.
func idleQP(pd *verbs.PD, cq *verbs.CQ, to verbs.AddressVector) (*verbs.QP, error) {
	q, err := pd.CreateQP(verbs.QPInit{
		Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return nil, err
	}
	err = q.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1}, verbs.MaskInit)
	if err == nil {
		err = q.Modify(verbs.QPAttr{
			State: verbs.StateRTR, AV: to, PathMTU: roce.MTU4096, DestQPN: 77,
			MaxDestRdAtomic: 1, MinRNRTimer: rnrTimer,
		}, verbs.MaskRTR)
	}
	if err == nil {
		err = q.Modify(verbs.QPAttr{State: verbs.StateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxQPRdAtomic: 1}, verbs.MaskRTS)
	}
	if err != nil {
		_ = q.Destroy() // the first error says why
		return nil, err
	}
	return q, nil
}
