package work

import (
	"sync"
	"sync/atomic"
)

// A lane is one queue of a pool: each worker has one, and those who poll share
// one more. Wakers push without a lock; whoever takes holds the lock.
type lane struct {
	inbox stack
	_     [120]byte

	mu   sync.Mutex
	list List
	// backlog says that the list is not empty. It is written under mu, and set
	// before the items come, so that pending never overlooks them.
	backlog atomic.Bool
	_       [88]byte
}

// pending reports whether the lane holds something.
func (l *lane) pending() bool { return !l.inbox.empty() || l.backlog.Load() }

// pop takes the item whose turn it is, or returns nil.
func (l *lane) pop() *Item {
	if !l.pending() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list.Len() == 0 {
		l.collect()
	}
	return l.shift()
}

// exchange puts i behind all others and takes the item whose turn it is.
func (l *lane) exchange(i *Item) *Item {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collect()
	l.list.Push(i)
	return l.shift()
}

// collect moves the inbox to the end of the list. The caller holds mu.
func (l *lane) collect() {
	if !l.inbox.empty() {
		l.setBacklog(true)
		l.list.pushNewest(l.inbox.take())
	}
}

// shift takes the head of the list. The caller holds mu.
func (l *lane) shift() *Item {
	i := l.list.Pop()
	l.setBacklog(l.list.Len() > 0)
	return i
}

// setBacklog writes only what changes: the line is read by all workers.
func (l *lane) setBacklog(has bool) {
	if l.backlog.Load() != has {
		l.backlog.Store(has)
	}
}

// steal moves items from a longer lane to lane n, so that both have as many,
// and at least one. They live there from now on.
func (p *pool) steal(n, from int) {
	if !p.lanes[from].pending() {
		return
	}
	p.lanes[min(n, from)].mu.Lock()
	p.lanes[max(n, from)].mu.Lock()
	l, other := &p.lanes[n], &p.lanes[from]
	l.collect()
	other.collect()
	for k := max(1, (other.list.Len()-l.list.Len()+1)/2); k > 0 && other.list.Len() > 0; k-- {
		l.setBacklog(true)
		i := other.shift()
		i.home = n
		l.list.Push(i)
	}
	l.mu.Unlock()
	other.mu.Unlock()
}
