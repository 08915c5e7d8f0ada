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
			if !p.wait(w) {
				return
			}
			continue
		}
		w.endSearch(p)
		for i != nil {
			if p.pending() {
				p.call()
			}
			if i.Exec(p.budget) {
				i = p.exchange(i)
			} else {
				i = p.pop()
			}
		}
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
	// Under the lock nothing is between the inbox and the list, so what
	// pending says is the whole truth.
	p.mu.Lock()
	p.rest.Add(parked)
	pending := p.pending()
	if pending || p.closed.Load() {
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
