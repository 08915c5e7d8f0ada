package work

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A pool is a queue of items and the goroutines that run them: what a tasklet
// and a work queue have in common.
//
// An item goes:
//
//  1. Queue pushes it on the inbox, without a lock, and wakes a parked worker
//     unless some worker is looking for work already.
//  2. A worker takes the lock, moves the whole inbox to the list when the list
//     is empty, and takes the item at its head.
//  3. It runs the item. One that wants to run again is pushed on the inbox,
//     behind all others.
type pool struct {
	inbox stack
	_     [56]byte

	// rest counts the workers that rest: the searching in the upper half, the
	// parked in the lower. Wakers read it, and write nothing when somebody
	// searches or nobody is parked.
	rest   atomic.Uint64
	closed atomic.Bool
	budget int
	size   int
	looks  int // at an empty queue before a worker parks
	_      [24]byte

	mu      sync.Mutex
	list    List
	backlog atomic.Bool // the list is not empty; written under mu
	parked  []*worker   // the last to park is the first to be woken

	workers sync.WaitGroup
}

// A worker is one goroutine of a pool.
type worker struct {
	wake      chan struct{} // holds one: whoever takes w from parked sends
	searching bool          // w is counted in rest; belongs to w
}

const (
	searching uint64 = 1 << 32
	parked    uint64 = 1
)

// start starts n workers. Each looks a number of times at an empty queue
// before it parks: not at all on a single CPU, where looking keeps away what it
// looks for.
func (p *pool) start(n, budget, looks int) {
	p.size, p.budget = n, budget
	p.parked = make([]*worker, 0, n)
	if runtime.GOMAXPROCS(0) > 1 {
		p.looks = looks
	}
	for range n {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers.Go(func() { p.work(w) })
	}
}

// queue is Executor.Queue.
func (p *pool) queue(i *Item) {
	p.inbox.push(i)
	if p.closed.Load() {
		p.sweep()
		return
	}
	p.call()
}

// call makes sure that a worker looks at the queue, now that it holds something.
//
// A worker that stops searching, or parks, says so in rest first and looks at
// the queue once more. We pushed first and look at rest now. So one of the two
// sees the other.
func (p *pool) call() {
	if r := p.rest.Load(); r >= searching || r == 0 {
		return
	}
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

// pending reports whether the queue holds something.
func (p *pool) pending() bool { return !p.inbox.empty() || p.backlog.Load() }

// pop takes the item whose turn it is, or returns nil.
func (p *pool) pop() *Item {
	if !p.pending() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shift()
}

// exchange puts back an item that wants to run again, behind all others, and
// takes the item whose turn it is: under one lock, and mostly the same item
// when there is only one.
func (p *pool) exchange(i *Item) *Item {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		i.Drop()
	} else {
		p.list.pushNewest(p.inbox.take())
		p.list.Push(i)
	}
	return p.shift()
}

// shift takes the head of the list. The caller holds mu.
func (p *pool) shift() *Item {
	if p.list.Empty() {
		p.list.pushNewest(p.inbox.take())
	}
	i := p.list.Pop()
	if has := !p.list.Empty(); has != p.backlog.Load() {
		p.backlog.Store(has)
	}
	return i
}

// sweep drops what has been queued since the pool was closed.
func (p *pool) sweep() {
	var late List
	late.pushNewest(p.inbox.take())
	for i := late.Pop(); i != nil; i = late.Pop() {
		i.Drop()
	}
}

// close is Executor.Close.
func (p *pool) close() {
	p.mu.Lock()
	if !p.closed.Load() {
		// What is in the inbox now is run. What comes later is swept, by those
		// who bring it and see closed; the second look is for the rest.
		p.list.pushNewest(p.inbox.take())
		p.closed.Store(true)
		p.list.pushNewest(p.inbox.take())
		p.backlog.Store(!p.list.Empty())
	}
	for _, w := range p.parked {
		p.rest.Add(searching - parked)
		w.wake <- struct{}{}
	}
	p.parked = p.parked[:0]
	p.mu.Unlock()
	if !insideRun() {
		p.workers.Wait()
	}
}
