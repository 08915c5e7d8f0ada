package comch

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/internal/testkit/race"
)

// garble writes garbage into words of memory that a peer can reach, until
// done, and at most so many times: random numbers, and numbers that are nearly
// right.
func garble(rng *rand.Rand, segments [][]byte, writes int, done func() bool) {
	for range writes {
		if done() {
			return
		}
		b := segments[rng.IntN(len(segments))]
		if rng.IntN(2) == 0 {
			b = b[:min(len(b), 1024)] // where most of what matters is
		}
		words, _ := sys.Words(b)
		w := &words[rng.IntN(len(words))]
		switch rng.IntN(5) {
		case 0:
			w.Store(rng.Uint64())
		case 1:
			w.Store(uint64(rng.IntN(100)))
		case 2:
			w.Store(w.Load() + uint64(rng.IntN(3)) - 1)
		case 3:
			w.Store(w.Load() ^ 1<<rng.IntN(64))
		case 4:
			w.Store(uint64(rng.IntN(100)) << 32)
		}
		if rng.IntN(20) == 0 {
			runtime.Gosched()
		}
	}
}

// A peer that writes garbage into every word that it can reach, while messages
// flow both ways: the connection may be dropped, and nothing else happens. Each
// side stops as ever.
func TestGarbageInSharedMemoryOnlyEndsTheConnection(t *testing.T) {
	rounds := 60
	if testing.Short() || race.Enabled {
		rounds = 15
	}
	dropped := 0
	for round := range rounds {
		t.Run("", func(t *testing.T) {
			if hostile(t, rand.New(rand.NewPCG(uint64(round), 6)), round%3 == 0) {
				dropped++
			}
		})
	}
	if dropped < rounds/3 {
		t.Errorf("%d of %d connections were dropped: the garbage missed", dropped, rounds)
	}
}

// hostile lets two sides talk while garbage comes, and reports whether the
// connection ended. A gentle peer spares the two streams of the control path.
func hostile(t *testing.T, rng *rand.Rand, gentle bool) (dropped bool) {
	const window, size = 8, 2000
	r := newFastRig(t)
	var in [2]*sink
	var out [2]*source
	var engines [2]*core.Engine
	segments := [][]byte{r.conn[0].segment.Bytes()}
	for side := range in {
		engines[side] = r.newEngine()
		in[side] = r.newSink(side, engines[side], window, window*size)
		out[side] = r.newSource(side, engines[side], window, size)
		in[side].start()
		in[side].onRecv = func(t *PostRecv) {
			if n := t.Len(); n > size {
				r.Errorf("a message of %d bytes", n)
			}
			if t.Buf().ResetDataLen() != nil || t.Submit() != nil {
				in[side].drop(t)
			}
		}
		for i := range window {
			in[side].post(i*size, size)
		}
		segments = append(segments, in[side].queue.Bytes(), in[side].mem)
	}
	if gentle {
		segments = segments[1:]
	}
	over := func() bool { return r.conn[0].gone() || r.conn[1].gone() }
	var finished atomic.Bool
	var wg sync.WaitGroup
	for side := range in {
		wg.Go(func() {
			for !finished.Load() {
				if task, err := out[side].AllocSend(nil, []byte("imm"), in[1-side].ID()); err == nil {
					_ = task.SetBuf(out[side].data(0, size))
					if task.Submit() != nil {
						out[side].drop(task)
					}
				}
				r.engine[side].Progress()
				if !engines[side].Progress() {
					runtime.Gosched()
				}
			}
		})
	}
	// Whatever the words say: progress never gets stuck, for engines that are
	// stuck would never see finished.
	begin := time.Now()
	garble(rng, segments, 200_000, func() bool { return over() || time.Since(begin) > time.Second })
	finished.Store(true)
	wg.Wait()
	dropped = over()
	// Nothing must be written any more while the memory is given back.
	r.conn[0].Abort()
	return dropped
}
