package work

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A pool is a set of lanes and the goroutines that serve them: what a tasklet
// and a work queue have in common.
//
// An item goes:
//
//  1. Queue pushes it on the inbox of the lane where it ran last, and wakes a
//     parked worker unless some worker searches already.
//  2. The lane's worker takes the lock, moves the inbox to the list when the
//     list is empty, and takes the item at its head. A worker with an empty
//     lane steals half of another.
//  3. It runs the item. One that wants to run again goes to the end of the lane.
type pool struct {
	lanes   []lane
	workers int
	budget  int
	looks   int // at empty lanes before a worker parks
	_       [80]byte

	// rest counts the workers that rest: the searching in the upper half, the
	// parked in the lower. Wakers read it, and write nothing when somebody
	// searches or nobody is parked.
	rest   atomic.Uint64
	closed atomic.Bool
	_      [112]byte

	mu     sync.Mutex
	parked []*worker // the last to park is the first to be woken
	ended  sync.WaitGroup
}

const (
	searching uint64 = 1 << 32
	parked    uint64 = 1
)

// start starts n workers, and makes that many lanes and some more for others.
// A worker looks a number of times at empty lanes before it parks: not at all
// on a single CPU, where looking keeps away what it looks for.
func (p *pool) start(n, more, budget, looks int) {
	p.workers, p.budget = n, budget
	p.lanes = make([]lane, n+more)
	p.parked = make([]*worker, 0, n)
	if runtime.GOMAXPROCS(0) > 1 {
		p.looks = looks
	}
	for k := range n {
		w := &worker{lane: k, wake: make(chan struct{}, 1)}
		p.ended.Go(func() { p.work(w) })
	}
}

// queue is Executor.Queue.
func (p *pool) queue(i *Item) {
	l := &p.lanes[i.home]
	l.inbox.push(i)
	if p.closed.Load() {
		l.sweep()
		return
	}
	if p.quiet() {
		p.call()
	}
}

// quiet reports whether there are parked workers and nobody searches.
func (p *pool) quiet() bool {
	r := p.rest.Load()
	return r != 0 && r < searching
}

// callForMore wakes a worker if more is queued: for whoever has taken an item
// and, by stealing, may have moved others while a worker looked for them.
func (p *pool) callForMore() {
	if p.quiet() && p.pending() {
		p.call()
	}
}

// call wakes a parked worker, if there is one, to search.
//
// No item is overlooked. A worker that stops searching, or parks, says so in
// rest and then looks at the lanes once more; a waker pushes and then looks at
// rest. So one of the two sees the other.
func (p *pool) call() {
	p.mu.Lock()
	n := len(p.parked)
	if n == 0 {
		p.mu.Unlock()
		return
	}
	w := p.parked[n-1]
	p.parked = p.parked[:n-1]
	// It searches from now on, and nobody needs to wake another one.
	p.rest.Add(searching - parked)
	p.mu.Unlock()
	w.wake <- struct{}{}
}

// pending reports whether some lane holds something.
func (p *pool) pending() bool {
	for k := range p.lanes {
		if p.lanes[k].pending() {
			return true
		}
	}
	return false
}

// take returns the item whose turn it is in lane n, or one stolen from another
// lane, or nil.
func (p *pool) take(n int) *Item {
	for k := range p.lanes {
		if k > 0 {
			p.steal(n, (n+k)%len(p.lanes))
		}
		if i := p.lanes[n].pop(); i != nil {
			return i
		}
	}
	return nil
}

// help runs one item on the caller, from the last lane: that of the pollers.
func (p *pool) help(budget int) bool {
	n := len(p.lanes) - 1
	i := p.take(n)
	if i == nil {
		return false
	}
	p.callForMore()
	if i.Exec(budget) {
		p.queue(i)
	}
	if p.closed.Load() { // the workers may have left before it was stolen
		for i := p.lanes[n].pop(); i != nil; i = p.lanes[n].pop() {
			if i.Exec(budget) {
				i.Drop()
			}
		}
	}
	return true
}

// close is Executor.Close. What is queued now is moved to the lists and run.
// What comes later is swept from the inboxes, by those who bring it and see
// closed, or is run by a worker: none leaves while something is pending.
func (p *pool) close() {
	for k := range p.lanes {
		l := &p.lanes[k]
		l.mu.Lock()
		l.collect()
		l.mu.Unlock()
	}
	p.closed.Store(true)
	p.mu.Lock()
	for _, w := range p.parked {
		p.rest.Add(searching - parked)
		w.wake <- struct{}{}
	}
	p.parked = p.parked[:0]
	p.mu.Unlock()
	if !insideRun() {
		p.ended.Wait()
	}
}

// sweep drops what has come since the pool was closed.
func (l *lane) sweep() {
	var late List
	late.pushNewest(l.inbox.take())
	for i := late.Pop(); i != nil; i = late.Pop() {
		i.Drop()
	}
}
