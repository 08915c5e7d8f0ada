package mem

import "github.com/gantry-rdma/gantry/core"

// A list is a head and the elements behind it. A buf on its own is the head of
// a list of one. The head alone holds the references of the list, knows its
// last element and its length; so chaining never walks.

// Chain appends list to the list of b. Both must be heads, and list must have
// one reference, or it is ErrNotPermitted; that reference now belongs to b.
// Chaining a list to itself is ErrInvalidValue, and a lent list is ErrInUse.
func (b *Buf) Chain(list *Buf) error {
	if err := b.chainable(list); err != nil {
		return err
	}
	b.link(list)
	return nil
}

// ChainTail is Chain, and checks that tail is the last element of b's list: it
// is ErrInvalidValue if not. It exists for programs that keep the tail; Chain
// is as fast.
func (b *Buf) ChainTail(tail, list *Buf) error {
	if err := b.chainable(list); err != nil {
		return err
	}
	if tail != b.last {
		return core.ErrInvalidValue
	}
	b.link(list)
	return nil
}

// chainable reports why list cannot be appended to b.
func (b *Buf) chainable(list *Buf) error {
	if err := b.changeable(); err != nil {
		return err
	}
	if err := list.changeable(); err != nil {
		return err
	}
	switch {
	case b == list:
		return core.ErrInvalidValue
	case (b.flags|list.flags)&member != 0, list.refs != 1:
		return core.ErrNotPermitted
	}
	return nil
}

func (b *Buf) link(list *Buf) {
	b.last.next = list
	b.last = list.last
	b.count += list.count
	list.flags |= member
}

// Unchain cuts the list of b in front of the element list, which becomes the
// head of its own list with one reference. b must be a head, or it is
// ErrNotPermitted; list must be in the list of b and not b itself, or it is
// ErrInvalidValue. A lent list is ErrInUse.
func (b *Buf) Unchain(list *Buf) error {
	if err := b.changeable(); err != nil {
		return err
	}
	switch {
	case b.flags&member != 0:
		return core.ErrNotPermitted
	case list == nil:
		return core.ErrInvalidValue
	}
	for before, n := b, 1; before.next != nil; before, n = before.next, n+1 {
		if before.next == list {
			list.flags &^= member
			list.last, list.count = b.last, b.count-n
			before.next, b.last, b.count = nil, before, n
			return nil
		}
	}
	return core.ErrInvalidValue
}

// Next returns the next element of the list, nil behind the last.
func (b *Buf) Next() *Buf { return b.next }

// Last returns the last element of the list: at once from the head, and by
// walking from any other element.
func (b *Buf) Last() (*Buf, error) {
	switch {
	case b == nil:
		return nil, core.ErrInvalidValue
	case b.flags&member == 0 && b.pins == 0 && b.refs == 0:
		return nil, core.ErrBadState
	case b.flags&member == 0:
		return b.last, nil
	}
	for b.next != nil {
		b = b.next
	}
	return b, nil
}

// ListLen returns how many elements the list has, at once. It is
// ErrNotPermitted for an element that is not the head.
func (b *Buf) ListLen() (int, error) {
	switch {
	case b == nil:
		return 0, core.ErrInvalidValue
	case b.flags&member != 0:
		return 0, core.ErrNotPermitted
	case b.pins == 0 && b.refs == 0:
		return 0, core.ErrBadState
	}
	return b.count, nil
}

// IsHead reports whether the buf is the first of its list, be it of one.
func (b *Buf) IsHead() bool { return b.flags&member == 0 }

// IsLast reports whether the buf is the last of its list, be it of one.
func (b *Buf) IsLast() bool { return b.next == nil }

// InList reports whether the buf is in a list of more than one.
func (b *Buf) InList() bool { return b.flags&member != 0 || b.next != nil }
