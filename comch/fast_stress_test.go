package comch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/internal/testkit/race"
)

// spin progresses an engine on its own goroutine until done.
func spin(e *core.Engine, done func() bool) {
	for !done() {
		if !e.Progress() {
			runtime.Gosched()
		}
	}
}

// messages returns how many a stress test sends.
func messages(n int) int {
	if testing.Short() || race.Enabled {
		return n / 10
	}
	return n
}

// mostBytes is the largest message of the test of contents.
const mostBytes = 20_000

// randomSizes returns what both sides draw the sizes of messages from.
func randomSizes() func() int {
	rng := rand.New(rand.NewPCG(3, 4))
	return func() int {
		if rng.IntN(16) == 0 {
			return rng.IntN(mostBytes) + 1
		}
		return rng.IntN(500) + 1
	}
}

// Messages of random sizes arrive in order with their contents.
func TestContentsOfManyMessages(t *testing.T) {
	const window = 32
	n := messages(100_000)
	r := newFastRig(t)
	receiving, sending := r.newEngine(), r.newEngine()
	in := r.newSink(0, receiving, window, window*mostBytes)
	out := r.newSource(1, sending, window, window*mostBytes)
	in.start()
	expected := randomSizes()
	received, wrong := 0, ""
	in.onRecv = func(t *PostRecv) {
		size, got := expected(), t.Buf().Data()
		imm := binary.LittleEndian.Uint64(t.Imm())
		if wrong == "" && (len(got) != size || imm != uint64(received) || !patterned(got, received)) {
			wrong = fmt.Sprintf("message %d: %d bytes of %d, immediate %d, contents right: %v",
				received, len(got), size, imm, patterned(got, received))
		}
		if received++; received+window <= n {
			in.again(t)
		} else {
			in.drop(t)
		}
	}
	for i := range window {
		in.post(i*mostBytes, mostBytes)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		spin(receiving, func() bool { return received == n || wrong != "" })
	}()
	out.sendMany(n, window, in.ID())
	<-over
	if wrong != "" {
		t.Error(wrong)
	}
}

// sendMany sends n messages, each with its number as immediate data and with
// contents that depend on it.
func (s *source) sendMany(n, window int, to uint16) {
	next := randomSizes()
	free := make([]int, 0, window)
	for i := range window {
		free = append(free, i)
	}
	s.onSent = func(t *ProducerSend) {
		free = append(free, int(t.User))
		s.drop(t)
	}
	for i := range n {
		size := next()
		spin(s.engine, func() bool { return len(free) > 0 })
		slot := free[len(free)-1]
		free = free[:len(free)-1]
		fill(s.mem[slot*mostBytes:][:size], i)
		var imm [8]byte
		binary.LittleEndian.PutUint64(imm[:], uint64(i))
		task, err := s.AllocSend(s.data(slot*mostBytes, size), imm[:], to)
		s.want("alloc", err, nil)
		task.User = uint64(slot)
		spin(s.engine, func() bool {
			err = task.Submit()
			return err != core.ErrAgain
		})
		s.want("submit", err, nil)
	}
	spin(s.engine, func() bool { return s.sent == n })
}

// patterned reports whether b is what fill made of it.
func patterned(b []byte, seed int) bool {
	want := make([]byte, len(b))
	fill(want, seed)
	return bytes.Equal(b, want)
}

// A crowd is four producers and four consumers.
const (
	crowd       = 4
	crowdWindow = 8
	crowdBytes  = 6000
)

// Each producer and consumer on a goroutine and an engine of its own:
// everything arrives once, and what one producer sent to one consumer arrives
// in order.
func TestFourProducersToFourConsumers(t *testing.T) {
	each := messages(4000) // of a producer to a consumer
	r := newFastRig(t)
	var in [crowd]*orderly
	var wg sync.WaitGroup
	for i := range in {
		in[i] = r.newOrderly()
	}
	for i := range crowd {
		s := r.newSource(1, r.newEngine(), crowdWindow, crowdBytes)
		s.mem[0] = byte(s.Producer.ID())
		wg.Go(func() { s.scatter(in, each, rand.New(rand.NewPCG(uint64(i), 5))) })
	}
	for _, s := range in {
		wg.Go(func() { spin(s.sink.engine, func() bool { return s.total == crowd*each }) })
	}
	wg.Wait()
	for i, s := range in {
		if len(s.wrong) > 0 {
			t.Errorf("consumer %d: %d wrong, first: %s", i, len(s.wrong), s.wrong[0])
		}
	}
}

// scatter sends so many messages to each of some consumers, in a random order.
func (s *source) scatter(in [crowd]*orderly, each int, rng *rand.Rand) {
	var sent [crowd]uint32
	for left := crowd * each; left > 0; {
		to := rng.IntN(crowd)
		if sent[to] == uint32(each) {
			continue
		}
		n := 100
		if rng.IntN(8) == 0 {
			n = crowdBytes
		}
		task, err := s.AllocSend(nil, binary.LittleEndian.AppendUint32(nil, sent[to]), in[to].ID())
		if err == nil {
			_ = task.SetBuf(s.data(0, n))
			if task.Submit() == nil {
				sent[to]++
				left--
				continue
			}
			s.drop(task)
		}
		s.engine.Progress()
		runtime.Gosched()
	}
	spin(s.engine, func() bool { return s.sent == crowd*each })
}

// An orderly is a sink that knows what is to come next from each producer.
type orderly struct {
	*sink
	next  [maxSeats + 1]uint32
	total int
	wrong []string
}

func (r *fastRig) newOrderly() *orderly {
	s := &orderly{sink: r.newSink(0, r.newEngine(), crowdWindow, crowdWindow*crowdBytes)}
	s.start()
	for k := range crowdWindow {
		s.post(k*crowdBytes, crowdBytes)
	}
	s.onRecv = func(t *PostRecv) {
		n, from := binary.LittleEndian.Uint32(t.Imm()), t.ProducerID()
		if s.next[from] != n {
			s.wrong = append(s.wrong, fmt.Sprintf("message %d of producer %d where %d is next", n, from, s.next[from]))
		}
		s.next[from]++
		if b := t.Buf().Data(); b[0] != byte(from) {
			s.wrong = append(s.wrong, "contents of another producer")
		}
		s.total++
		s.again(t)
	}
	return s
}

// A consumer that stops while producers send: its receives are filled or
// flushed, the sends succeed or fail because there is no such consumer, and
// nobody else notices.
func TestConsumerStopsUnderFire(t *testing.T) {
	const window, size = 16, 64 << 10
	rounds := messages(60)
	r := newFastRig(t)
	receiving := r.newEngine()
	in := r.newSink(0, receiving, window, window*size)
	out := r.newSource(1, r.newEngine(), window, size)
	for round := range rounds {
		in.start()
		got := 0
		in.failed, out.failed, out.sent = nil, nil, 0
		in.onRecv = func(t *PostRecv) {
			got++
			if in.State() != core.Running || t.Buf().ResetDataLen() != nil || t.Submit() != nil {
				in.drop(t)
			}
		}
		for i := range window {
			in.post(i*size, size)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			out.fire([]int{64, size}[round%2], in.ID())
		}()
		r.until("some arrive", func() bool { return got > 20 }, receiving)
		r.want("stop", in.Stop(), core.ErrInProgress)
		r.until("idle", func() bool { return in.State() == core.Idle }, receiving)
		<-over
		if i := slices.IndexFunc(out.failed, func(s core.Status) bool { return s != core.ErrNotFound }); i >= 0 {
			t.Fatalf("round %d: a send failed with %v, want %v", round, out.failed[i], core.ErrNotFound)
		}
		if i := slices.IndexFunc(in.failed, func(s core.Status) bool { return s != core.ErrFlushed }); i >= 0 {
			t.Fatalf("round %d: a receive failed with %v, want %v", round, in.failed[i], core.ErrFlushed)
		}
		if out.sent < got {
			t.Fatalf("round %d: %d sent, %d arrived", round, out.sent, got)
		}
	}
}

// fire sends messages of n bytes until one fails, and waits for all.
func (s *source) fire(n int, to uint16) {
	submitted := 0
	for len(s.failed) == 0 {
		if task, err := s.AllocSend(nil, []byte{1}, to); err == nil {
			_ = task.SetBuf(s.data(0, n))
			if task.Submit() == nil {
				submitted++
			} else {
				s.drop(task)
			}
		}
		if !s.engine.Progress() {
			runtime.Gosched()
		}
	}
	spin(s.engine, func() bool { return len(s.failed)+s.sent == submitted })
}

// What secure_channel does: it frees receive tasks and their bufs that are
// still posted, and then stops the consumer.
func TestReceivesFreedInFlightExitCleanly(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 4, 4096)
	out := r.newSource(1, r.engine[1], 4, 4096)
	in.start()
	var posted []*PostRecv
	for i := range 4 {
		posted = append(posted, in.post(i*100, 100))
	}
	calls := 0
	in.onRecv = func(*PostRecv) { calls++ }
	bufs := in.bufs.Free()
	for _, p := range posted {
		_, err := p.Buf().Unref()
		r.want("unref in flight", err, nil)
		r.want("free in flight", p.Free(), nil)
	}
	r.want("submit", out.task(0, 100, "", in.ID()).Submit(), nil)
	r.until("one arrives", func() bool { return calls == 1 })
	r.want("stop", in.Stop(), core.ErrInProgress)
	r.until("idle", func() bool { return in.State() == core.Idle })
	if len(in.failed) != 3 || in.bufs.Free() != bufs+4 || in.Unfreed() != 0 {
		t.Errorf("%d flushed, %d bufs came back, %d tasks out; want 3, 4, 0", len(in.failed), in.bufs.Free()-bufs, in.Unfreed())
	}
}

// One engine drives a server, a client, a producer, a consumer and a DMA
// context together, and takes turns.
func TestOneEngineDrivesComchAndDMA(t *testing.T) {
	const rounds = 300
	r := newFastRig(t)
	e := r.engine[0]
	in := r.newSink(0, e, 4, 1<<20)
	out := r.newSource(1, e, 4, 1<<20)
	copier, err := dma.New(r.device[0])
	r.want("dma", err, nil)
	r.want("connect", e.Connect(&copier.Context), nil)
	copies := 0
	again := func(m *dma.Memcpy) {
		copies++
		_ = m.Dst().ResetDataLen()
		if copies >= rounds || m.Submit() != nil {
			_, _ = m.Src().Unref()
			_, _ = m.Dst().Unref()
			_ = m.Free()
		}
	}
	r.want("configure", copier.ConfigureMemcpy(again, again, 1), nil)
	r.want("start", copier.Start(), nil)
	in.start()
	received := 0
	in.onRecv = func(t *PostRecv) { received++; in.again(t) }
	for i := range 4 {
		in.post(i*1000, 1000)
	}
	local := r.newShelf(0, 1<<20)
	m, err := copier.AllocMemcpy(local.data(0, 1000), local.room(5000, 1000))
	r.want("alloc", err, nil)
	r.want("submit", m.Submit(), nil)
	control, err := r.client.AllocSend(r.conn[1], []byte("hello"))
	r.want("alloc", err, nil)
	r.want("submit", control.Submit(), nil)
	for sent := 0; sent < rounds; {
		if task, err := out.AllocSend(out.data(0, 1000), nil, in.ID()); err == nil {
			if task.Submit() == nil {
				sent++
			} else {
				out.drop(task)
			}
		}
		r.until("a turn", func() bool { return true })
		e.ProgressBatch(8)
	}
	r.until("all", func() bool { return received == rounds && copies >= rounds && out.sent == rounds })
	r.want("shut down", copier.Shutdown(r.background()), nil)
	r.want("destroy", copier.Destroy(), nil)
}

// A connection that is lost ends what is in flight with CONNECTION_RESET, on
// both sides, and submits from then on.
func TestLostConnectionResetsTheFastPath(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 4, 4<<20)
	out := r.newSource(1, r.engine[1], 4, 4<<20)
	in.start()
	in.post(0, 1<<20)
	in.post(1<<20, 1<<20)
	long := out.task(0, 1<<20, "", in.ID())
	r.want("submit", long.Submit(), nil)
	r.engine[1].Progress() // some of it is copied
	starved := out.task(0, 1, "", in.ID())
	r.conn[0].Abort()
	for !r.conn[1].gone() { // the attendant sees it, whatever the engine does
		runtime.Gosched()
	}
	r.until("both sides know", func() bool { return len(out.failed) == 1 && len(in.failed) == 2 })
	for _, s := range append(out.failed, in.failed...) {
		if s != core.ErrConnectionReset {
			t.Errorf("status %v, want %v", s, core.ErrConnectionReset)
		}
	}
	r.want("submit", starved.Submit(), core.ErrConnectionReset)
	out.drop(starved)
	recv, err := in.AllocPostRecv(in.room(0, 10))
	r.want("alloc", err, nil)
	r.want("post", recv.Submit(), core.ErrConnectionReset)
	in.drop(recv)
}

// A peer that was given up may not know yet, and write arrivals for receives
// that are being flushed. They come too late.
func TestArrivalsOfAPeerThatWasGivenUpComeTooLate(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 4, 4096)
	in.start()
	in.post(0, 100)
	in.post(100, 100)
	in.onRecv = func(t *PostRecv) {
		r.Errorf("slot %d arrived", t.Slot())
		in.drop(t)
	}
	far := r.conn[1].remote(in.ID())
	far.mu.Lock() // keeps its attendant from retiring it
	r.conn[0].Abort()
	r.until("the first is flushed", func() bool { return len(in.failed) == 1 })
	for range 2 {
		place, ok, err := far.sender.Peek()
		if !ok {
			t.Fatal("no receive", err)
		}
		far.sender.Claim()
		far.sender.Arrive(place.Slot, 10, 1, nil)
	}
	far.mu.Unlock()
	r.until("the second is flushed", func() bool { return len(in.failed) == 2 })
}
