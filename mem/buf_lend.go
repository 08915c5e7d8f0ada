package mem

import "github.com/gantry-rdma/gantry/core"

// Lend pins the list of b for a task in flight; Return ends the loan. It is
// for libraries: lend the heads of a task's lists at submit, return them at
// completion, both on the engine's goroutine. A list can be lent many times.
//
// While it is lent nothing can change it (but Grow), its memory stays, and its
// elements do not go back to their inventory even when the last reference is
// dropped. So a worker may read the elements without further checks.
//
// Lend is ErrBadState for a list without references or, in thread-safe maps,
// of a stopped map, ErrIOFailed for a buf of a map that was revoked (which a
// task must end with), ErrNotPermitted for an element that is not the head, and
// ErrInUse beside LendToWrite. Then nothing is lent.
func (b *Buf) Lend() error {
	if b.next == nil && b.flags == 0 && b.refs > 0 {
		b.pins++
		return nil
	}
	return b.lendList()
}

// LendToWrite is Lend for the list that a task writes to: no other loan may
// exist beside it. It is ErrInUse while the list is lent, and as long as this
// loan lasts so is Lend.
func (b *Buf) LendToWrite() error {
	if b.next == nil && b.flags == 0 && b.refs > 0 && b.pins == 0 {
		b.pins, b.flags = 1, written
		return nil
	}
	if b.pins > 0 {
		return core.ErrInUse
	}
	if err := b.lendList(); err != nil {
		return err
	}
	b.flags |= written
	return nil
}

func (b *Buf) lendList() error {
	switch {
	case b.flags&written != 0:
		return core.ErrInUse
	case b.flags&member != 0:
		return core.ErrNotPermitted
	case b.refs == 0:
		return core.ErrBadState
	}
	for e := b; e != nil; e = e.next {
		if err := e.lendable(); err != nil {
			b.unpin(e)
			return err
		}
		e.pins++
	}
	return nil
}

// lendable asks the map of one element, and counts the loan with it if it
// counts them.
func (b *Buf) lendable() error {
	switch {
	case b.flags&safe != 0 && !b.m.lend():
		return core.ErrBadState
	case b.flags&foreign != 0 && !b.m.Started():
		return core.ErrIOFailed
	}
	return nil
}

// Return ends one loan. If it was the last, and no reference is left, the list
// goes back to where its elements came from. A Return without a Lend does
// nothing.
func (b *Buf) Return() {
	if b.next == nil && b.flags&^written == 0 && b.refs > 0 && b.pins > 0 {
		b.pins--
		b.flags = 0 // a loan for writing was the only one
	} else {
		b.returnList()
	}
}

func (b *Buf) returnList() {
	if b.flags&member != 0 || b.pins == 0 {
		return
	}
	b.unpin(nil)
	if b.pins == 0 {
		b.flags &^= written
	}
	if b.refs == 0 && b.pins == 0 {
		b.release()
	}
}

// unpin takes one loan from the elements before end. All elements of a list
// have the same number of loans, as a lent list does not change.
func (b *Buf) unpin(end *Buf) {
	for e := b; e != end; e = e.next {
		e.pins--
		if e.flags&safe != 0 {
			e.m.giveBack()
		}
	}
}

// Lent reports whether a task in flight has the buf.
func (b *Buf) Lent() bool { return b.pins > 0 }
