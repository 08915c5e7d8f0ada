package work

import "runtime"

// spinLooks is how often a worker looks at an empty queue before it parks. In
// between it lets other goroutines run: about 100 ns when there are none. So
// the search takes about as long as parking and waking a goroutine on another
// CPU does, and at most doubles the cost of going to sleep.
const spinLooks = 100

// work is the life of one worker.
func (p *pool) work(w *worker) {
	for {
		i := p.pop()
		if i == nil {
			closed := p.closed.Load() // before the last look
			if p.pending() {
				continue
			}
			if closed {
				return
			}
			p.wait(w)
			continue
		}
		w.endSearch(p)
		if p.pending() {
			p.call()
		}
		if i.Exec(p.budget) {
			p.inbox.push(i) // no call: this worker looks again at once
			if p.closed.Load() {
				p.sweep()
			}
		}
	}
}

// wait returns when there may be work, or when the pool is closed.
func (p *pool) wait(w *worker) {
	if w.beginSearch(p) {
		for range p.spin {
			runtime.Gosched()
			if p.pending() || p.closed.Load() {
				return
			}
		}
		w.endSearch(p)
	}
	p.mu.Lock()
	p.rest.Add(parked)
	if p.pending() || p.closed.Load() {
		p.rest.Add(^(parked - 1))
		p.mu.Unlock()
		return
	}
	p.parked = append(p.parked, w)
	p.mu.Unlock()
	<-w.wake
	w.searching = true // on our behalf, by whoever woke us
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
