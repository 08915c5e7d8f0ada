package comch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

// A producer that is stopped sends what it has accepted, however long it is.
func TestStoppedProducerSendsWhatItAccepted(t *testing.T) {
	const size = 1 << 20
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 3, 3*size)
	out := r.newSource(1, r.engine[1], 3, size)
	in.start()
	fill(out.mem, 1)
	got := 0
	in.onRecv = func(t *PostRecv) {
		if patterned(t.Buf().Data(), 1) && t.Len() == size {
			got++
		}
		in.drop(t)
	}
	for i := range 3 {
		in.post(i*size, size)
		r.want("submit", out.task(0, size, "", in.ID()).Submit(), nil)
	}
	r.want("stop", out.Stop(), core.ErrInProgress)
	r.until("idle", func() bool { return out.State() == core.Idle })
	r.until("all arrive", func() bool { return got == 3 })
	if out.sent != 3 {
		t.Errorf("%d completions, want 3", out.sent)
	}
}

// Source memory that is not there fails the send; the receive that it had
// claimed is filled by the next one.
func TestVanishedSourceGivesTheReceiveBack(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 1, 1<<20)
	out := r.newSource(1, r.engine[1], 4, 4096)
	in.start()
	in.post(0, 1<<20)
	f, err := os.Create(filepath.Join(t.TempDir(), "source"))
	r.want("create", err, nil)
	defer f.Close()
	r.want("truncate", f.Truncate(1<<20), nil)
	m, err := mem.NewMap()
	r.want("map", err, nil)
	r.want("map the file", m.MapFile(f, 0, 1<<20, false), nil)
	r.want("device", m.AddDevice(r.device[1]), nil)
	r.want("start the map", m.Start(), nil)
	defer func() { r.want("destroy the map", m.Destroy(), nil) }()
	base, _, err := m.Range()
	r.want("range", err, nil)
	r.want("truncate", f.Truncate(0), nil)
	for i, n := range []int{1000, 1 << 20} { // sent within Submit, and by Poll
		buf, err := out.bufs.ByData(m, base, n)
		r.want("buf", err, nil)
		r.want("submit", withBuf(out.task(0, 0, "", in.ID()), buf).Submit(), nil)
		r.until("failed", func() bool { return len(out.failed) == i+1 })
		got := -1
		in.onRecv = func(t *PostRecv) { got = t.Len(); in.again(t) }
		r.until("the receive is there again", func() bool { return r.conn[1].remote(in.ID()).fed() })
		r.want("submit", out.task(0, 100, "", in.ID()).Submit(), nil)
		r.until("the next one arrives", func() bool { return got == 100 })
	}
	if want := []core.Status{core.ErrIOFailed, core.ErrIOFailed}; !slices.Equal(out.failed, want) {
		t.Errorf("statuses %v, want %v", out.failed, want)
	}
}

// A consumer starts and stops many times, and is stopped while it starts. The
// peer hears of each time, and nothing is left behind.
func TestConsumerStartsAnew(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 2, 4096)
	out := r.newSource(1, r.engine[1], 2, 4096)
	before := descriptors(r)
	for i := range 20 {
		in.start()
		got := 0
		in.onRecv = func(t *PostRecv) { got++; in.drop(t) }
		in.post(0, 100)
		in.post(100, 100)
		r.want("submit", out.task(0, 100, "", in.ID()).TrySubmit(), nil)
		r.until("arrived", func() bool { return got == 1 })
		r.want("stop", in.Stop(), core.ErrInProgress)
		r.until("idle", func() bool { return in.State() == core.Idle })
		r.want("start", in.Start(), core.ErrInProgress)
		_, err := in.AllocPostRecv(nil)
		r.want("alloc while starting", err, core.ErrBadState)
		r.want("stop while starting", in.Stop(), core.ErrInProgress)
		r.until("idle", func() bool { return in.State() == core.Idle })
		r.until("expired", func() bool { return len(r.told[1]) == len(r.expired[1]) && len(r.expired[1]) > i })
		if n := len(in.failed); n != i+1 {
			t.Fatalf("%d receives flushed after %d rounds", n, i+1)
		}
	}
	r.until("the mappings are given back", func() bool { return descriptors(r) <= before })
}

// A peer that cannot map the consumer says so, and the start fails.
func TestRefusedConsumerGoesIdle(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 2, 4096)
	in.seat.id, in.imm = 7, maxImmData+1 // which no peer accepts
	r.want("start", in.Start(), core.ErrInProgress)
	r.until("idle", func() bool { return in.State() == core.Idle })
	r.want("start", in.Start(), core.ErrInProgress)
	r.want("stop at once", in.Stop(), core.ErrInProgress)
	r.until("idle", func() bool { return in.State() == core.Idle })
	in.imm = maxImmData
	in.start()
	if r.conn[0].gone() || r.conn[1].gone() {
		t.Error("the connection is gone")
	}
}

// Messages do not keep a receive that is flushed in the meantime: what arrived
// before the stop is reported as such, the rest as flushed.
func TestStopReportsWhatArrivedBefore(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 4, 4096)
	out := r.newSource(1, r.engine[1], 2, 4096)
	in.start()
	got := 0
	in.onRecv = func(t *PostRecv) { got++; in.drop(t) }
	for i := range 4 {
		in.post(i*100, 100)
	}
	for range 2 {
		r.want("submit", out.task(0, 100, "", in.ID()).Submit(), nil)
	}
	r.want("stop", in.Stop(), core.ErrInProgress)
	r.until("idle", func() bool { return in.State() == core.Idle })
	if got != 2 || !slices.Equal(in.failed, []core.Status{core.ErrFlushed, core.ErrFlushed}) {
		t.Errorf("%d arrived, the rest %v; want 2, and 2 flushed", got, in.failed)
	}
}

// A send to a consumer of a peer that stopped it, when its receive had been
// claimed but the message was not copied, fails and disturbs nobody.
func TestClaimedReceiveOfStoppedConsumer(t *testing.T) {
	const size = 2 << 20
	r := newFastRig(t)
	own := r.newEngine()
	in := r.newSink(0, r.engine[0], 1, size)
	out := r.newSource(1, own, 2, size)
	in.start()
	in.post(0, size)
	r.want("submit", out.task(0, size, "", in.ID()).Submit(), nil)
	own.Progress() // the first part
	r.want("stop", in.Stop(), core.ErrInProgress)
	r.until("idle", func() bool { return in.State() == core.Idle })
	for own.Progress() {
	}
	if !slices.Equal(out.failed, []core.Status{core.ErrNotFound}) {
		t.Errorf("statuses %v, want %v", out.failed, core.ErrNotFound)
	}
}

// Nobody takes the memory away from under a copy.
func TestRetireWaitsForTheCopiesThatAreBeingMade(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 1, 4096)
	in.start()
	far := r.conn[1].remote(in.ID())
	far.mu.Lock()
	far.copies++
	far.mu.Unlock()
	retired := make(chan struct{})
	go func() {
		defer close(retired)
		far.retire()
	}()
	for waits := false; !waits; {
		far.mu.Lock()
		waits = far.retired
		far.mu.Unlock()
	}
	far.mu.Lock() // now it waits, or has gone through
	if far.memory == nil {
		t.Error("the memory is gone while it is copied to")
	}
	far.copies--
	far.last.Broadcast()
	far.mu.Unlock()
	<-retired
	if far.memory != nil {
		t.Error("the memory is still there")
	}
}
