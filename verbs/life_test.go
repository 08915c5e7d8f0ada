package verbs_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// lives is how often queue pairs are reset or destroyed at work, over all
// executors.
func lives(t *testing.T) int {
	if testing.Short() {
		return 400
	}
	return 10_000
}

// load keeps both ends of a connection busy, whatever their state.
func (r *rig) load(stop *atomic.Bool, a, b *QP) {
	wrs := []SendWR{
		{ID: 1, Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 3000)}},
		{ID: 2, Opcode: WRRDMARead, Flags: Signaled, SG: []SGE{r.a.mr.SGE(4096, 5000)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()},
		{ID: 3, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 2000)}, RemoteAddr: r.b.mr.Addr() + 65536, RKey: r.b.mr.RKey()},
	}
	var wc [32]WC
	for !stop.Load() {
		_, _ = b.PostRecv(RecvWR{ID: 4, SG: []SGE{r.b.mr.SGE(16384, 4096)}})
		_, _ = a.PostSend(wrs...)
		for _, cq := range []*CQ{r.a.scq, r.a.cq, r.b.scq, r.b.cq} {
			cq.Poll(wc[:])
		}
		runtime.Gosched()
	}
}

// A queue pair that is reset at work forgets everything, can be connected again
// at once, and then moves data as if nothing had been.
func TestResetAtWorkLeavesACleanQueuePair(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		s := standard()
		s.cqe = 4096
		r := newRig(t, da, db, s)
		var stop atomic.Bool
		var loads sync.WaitGroup
		loads.Go(func() { r.load(&stop, r.a.qp, r.b.qp) })
		for range lives(t) / 2 / len(executors) {
			for range rand.IntN(20) {
				runtime.Gosched()
			}
			for _, q := range []*QP{r.a.qp, r.b.qp} {
				if err := q.Modify(QPAttr{State: StateReset}, AttrState); err != nil {
					t.Fatal(err)
				}
			}
			connect(t, s, da, db, r.a.qp, r.b.qp)
		}
		stop.Store(true)
		loads.Wait()
		r.startAfresh(s)
		fill(r.a.mem[:4096], 9)
		r.b.recv(RecvWR{ID: 50, SG: []SGE{r.b.mr.SGE(0, 4096)}})
		r.a.send(SendWR{ID: 51, Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 4096)}})
		if a, b := r.a.good(r.a.scq), r.b.good(r.b.cq); a.ID != 51 || b.ID != 50 {
			t.Errorf("got completions %d and %d, want 51 and 50", a.ID, b.ID)
		}
	})
}

// startAfresh resets both ends, drops old completions, and connects again, with
// other sequence numbers: a repeated answer may still be under way on a network,
// and must not answer a new request.
func (r *rig) startAfresh(s settings) {
	r.t.Helper()
	r.starts++
	s.psn = s.psn.Add(r.starts * 0x11000)
	for _, e := range []*end{r.a, r.b} {
		if err := e.qp.Modify(QPAttr{State: StateReset}, AttrState); err != nil {
			r.t.Fatal(err)
		}
		for _, cq := range []*CQ{e.cq, e.scq} {
			for wc := make([]WC, 64); cq.Poll(wc) > 0; {
			}
		}
	}
	connect(r.t, s, r.a.dev, r.b.dev, r.a.qp, r.b.qp)
}

func TestDestroyAtWorkLeavesNothingBehind(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		s := standard()
		s.cqe = 4096
		r := newRig(t, da, db, s)
		for range lives(t) / 2 / len(executors) {
			a, b := r.a.newQP(s), r.b.newQP(s)
			connect(t, s, da, db, a, b)
			var stop atomic.Bool
			var loads sync.WaitGroup
			loads.Go(func() { r.load(&stop, a, b) })
			for range rand.IntN(20) {
				runtime.Gosched()
			}
			first, second := a, b
			if rand.IntN(2) == 0 {
				first, second = b, a
			}
			if err := errors.Join(first.Destroy(), second.Destroy()); err != nil {
				t.Fatal(err)
			}
			stop.Store(true)
			loads.Wait()
		}
		r.dismantle()
	})
}

// dismantle takes everything apart, which must not be in use any more.
func (r *rig) dismantle() {
	r.t.Helper()
	for _, e := range []*end{r.a, r.b} {
		err := errors.Join(e.qp.Destroy(), e.mr.Dereg(), e.cq.Destroy(), e.scq.Destroy(), e.pd.Dealloc())
		if err != nil {
			r.t.Error(err)
		}
	}
}

func TestDevicesCloseUnderLoad(t *testing.T) {
	for _, e := range executors {
		for range 20 {
			x := e.make()
			da, db, err := OpenPair(Config{Executor: x}, Config{Executor: x})
			if err != nil {
				t.Fatal(err)
			}
			s := standard()
			s.cqe = 4096
			r := newRig(t, da, db, s)
			var stop atomic.Bool
			var loads sync.WaitGroup
			loads.Go(func() { r.load(&stop, r.a.qp, r.b.qp) })
			for range rand.IntN(50) {
				runtime.Gosched()
			}
			if err := errors.Join(da.Close(), db.Close()); err != nil {
				t.Error(err)
			}
			stop.Store(true)
			loads.Wait()
			x.Close()
		}
	}
}

// The default executor is shared, and ends with the last device: the leak check
// of this package sees it otherwise.
func TestDefaultExecutorIsSharedAndEnds(t *testing.T) {
	da, db := pair(t, nil)
	if da.Executor() != db.Executor() {
		t.Error("got two executors, want one that is shared")
	}
	r := newRig(t, da, db, standard())
	r.b.recv(RecvWR{})
	r.a.send(SendWR{Opcode: WRSend, Flags: Signaled})
	r.a.good(r.a.scq)
	r.b.good(r.b.cq)
}

func TestWhatIsInUseIsNotGivenUp(t *testing.T) {
	da, db := pair(t, nil)
	r := newRig(t, da, db, standard())
	for what, err := range map[string]error{
		"protection domain": r.a.pd.Dealloc(), "completion queue": r.a.cq.Destroy(),
	} {
		if !errors.Is(err, EBUSY) {
			t.Errorf("got error %v for a %s in use, want EBUSY", err, what)
		}
	}
	r.dismantle()
	if err := r.a.qp.Destroy(); !errors.Is(err, EBADF) {
		t.Errorf("got error %v for a second destroy, want EBADF", err)
	}
}
