package work

import "sync/atomic"

// A List is a first-in, first-out list of items that an executor holds. It is
// linked through the items, so it never allocates. The zero List is empty. It
// is not safe for concurrent use, and an item can be in one list only.
type List struct {
	head, tail *Item
	n          int
}

// Push adds i at the tail.
func (l *List) Push(i *Item) {
	i.next = nil
	if l.head == nil {
		l.head = i
	} else {
		l.tail.next = i
	}
	l.tail = i
	l.n++
}

// Pop takes the item at the head, or returns nil.
func (l *List) Pop() *Item {
	i := l.head
	if i == nil {
		return nil
	}
	l.head, i.next = i.next, nil
	l.n--
	return i
}

// Len returns how many items the list holds.
func (l *List) Len() int { return l.n }

// pushNewest adds the items of a stack, the oldest first. A stack is a chain
// from the newest item to the oldest, as concurrent pushes build it.
func (l *List) pushNewest(top *Item) {
	if top == nil {
		return
	}
	last, first := top, (*Item)(nil)
	for i := top; i != nil; {
		older := i.next
		i.next = first
		first, i = i, older
		l.n++
	}
	if l.head == nil {
		l.head = first
	} else {
		l.tail.next = first
	}
	l.tail = last
}

// A stack takes items from any goroutine without a lock. Items are only ever
// taken out all at once, so an old head cannot be mistaken for a new one.
type stack struct {
	top atomic.Pointer[Item]
}

func (s *stack) push(i *Item) {
	for {
		top := s.top.Load()
		i.next = top
		if s.top.CompareAndSwap(top, i) {
			return
		}
	}
}

func (s *stack) empty() bool { return s.top.Load() == nil }

// take empties the stack. It looks first: the common case costs no write.
func (s *stack) take() *Item {
	if s.empty() {
		return nil
	}
	return s.top.Swap(nil)
}
