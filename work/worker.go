package work

import "runtime"

// spinLooks is how often a worker looks at empty lanes before it parks. In
// between it lets other goroutines run: about 100 ns when there are none. So
// the search takes about as long as parking and waking a goroutine on another
// CPU does, and at most doubles the cost of going to sleep.
const spinLooks = 100

// balanceEvery is after how many runs a busy worker takes something from
// another lane, so that no lane is forgotten and none stays much longer.
const balanceEvery = 64

// A worker is one goroutine of a pool.
type worker struct {
	lane      int           // its own
	wake      chan struct{} // holds one: whoever takes w from parked sends
	searching bool          // w is counted in rest
	turn      int           // runs so far
}

// work is the life of one worker.
func (p *pool) work(w *worker) {
	l := &p.lanes[w.lane]
	for {
		i := p.take(w.lane)
		if i == nil {
			if !p.wait(w) {
				return
			}
			continue
		}
		w.endSearch(p)
		for i != nil {
			if w.turn++; w.turn%balanceEvery == 0 {
				p.balance(w)
			}
			p.callForMore()
			switch {
			case !i.Exec(p.budget):
				i = l.pop()
			case p.closed.Load():
				i.Drop()
				i = l.pop()
			default:
				i = l.exchange(i)
			}
		}
	}
}

// balance takes something from the lane whose turn it is.
func (p *pool) balance(w *worker) {
	if from := w.turn / balanceEvery % len(p.lanes); from != w.lane {
		p.steal(w.lane, from)
	}
}

// wait returns true when there may be work, and false when the pool is closed
// and empty.
func (p *pool) wait(w *worker) bool {
	if w.beginSearch(p) {
		for range p.looks {
			runtime.Gosched()
			if p.pending() {
				return true
			}
		}
		w.endSearch(p)
	}
	p.mu.Lock()
	p.rest.Add(parked)
	closed := p.closed.Load() // before the last look
	pending := p.pending()
	if pending || closed {
		p.rest.Add(^(parked - 1))
		p.mu.Unlock()
		return pending
	}
	p.parked = append(p.parked, w)
	p.mu.Unlock()
	<-w.wake
	w.searching = true // on our behalf, by whoever woke us
	return true
}

// beginSearch reports whether w is, or becomes, the worker that searches. One
// is enough: it takes the next wake-up, and calls another worker if it finds
// more than it can carry. More would take the CPU from those who have work.
func (w *worker) beginSearch(p *pool) bool {
	for !w.searching {
		r := p.rest.Load()
		if r >= searching {
			return false
		}
		w.searching = p.rest.CompareAndSwap(r, r+searching)
	}
	return true
}

func (w *worker) endSearch(p *pool) {
	if w.searching {
		w.searching = false
		p.rest.Add(^(searching - 1))
	}
}
