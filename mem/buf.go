package mem

import (
	"math"

	"github.com/gantry-rdma/gantry/core"
)

// A Buf describes a window of a map, and the valid bytes (the data) in it. The
// package comment has the picture.
//
// A Buf belongs to one goroutine. While it is lent to a task, every call that
// would change it is ErrInUse; worker goroutines of the context may then read
// Head, Data and TailBytes. A Buf with reference count 0 has gone back to its
// inventory: it has no bytes, and calls that can fail are ErrBadState. A nil
// Buf is ErrInvalidValue.
type Buf struct {
	head  []byte // the window; does not change while the buf is taken
	off   int    // of the data, from the head on
	n     int    // bytes of data
	m     *Map
	next  *Buf
	pins  int32 // loans
	refs  uint16
	flags bufFlags

	addr  Addr // of the head
	last  *Buf // of a head: the last element of its list
	count int  // of a head: elements of its list
	home  *shelf
	slot  int // the place in a pool
}

type bufFlags uint8

const (
	member  bufFlags = 1 << iota // an element of a list, and not its head
	safe                         // of a thread-safe map
	foreign                      // of an imported map
	written                      // lent to a task that writes it
)

// Map returns the map that the buf is a window of; nil for a returned buf.
func (b *Buf) Map() *Map { return b.m }

// Head returns the whole window.
func (b *Buf) Head() []byte { return b.head }

// HeadAddr returns the address of the window.
func (b *Buf) HeadAddr() Addr { return b.addr }

// Len returns the size of the window in bytes.
func (b *Buf) Len() int { return len(b.head) }

// Data returns the valid bytes: what a task reads.
func (b *Buf) Data() []byte { return b.head[b.off : b.off+b.n : b.off+b.n] }

// DataAddr returns the address of the valid bytes.
func (b *Buf) DataAddr() Addr { return b.addr + Addr(b.off) }

// DataLen returns how many bytes are valid.
func (b *Buf) DataLen() int { return b.n }

// TailBytes returns the room behind the data: where a task writes.
func (b *Buf) TailBytes() []byte { return b.head[b.off+b.n:] }

// Tail returns how many bytes of room are behind the data.
func (b *Buf) Tail() int { return len(b.head) - b.off - b.n }

// changeable reports why the buf cannot be changed now.
func (b *Buf) changeable() error {
	switch {
	case b == nil:
		return core.ErrInvalidValue
	case b.pins > 0:
		return core.ErrInUse
	case b.refs == 0:
		return core.ErrBadState
	}
	return nil
}

// SetData makes the n bytes at a the valid ones. They must lie in the window,
// or it is ErrInvalidValue and nothing changes.
func (b *Buf) SetData(a Addr, n int) error {
	if err := b.changeable(); err != nil {
		return err
	}
	off, ok := a.offset(n, b.addr, len(b.head))
	if !ok {
		return core.ErrInvalidValue
	}
	b.off, b.n = off, n
	return nil
}

// SetDataAt is SetData with a place counted from the start of the window.
func (b *Buf) SetDataAt(off, n int) error {
	if err := b.changeable(); err != nil {
		return err
	}
	if off < 0 || n < 0 || off > len(b.head) || n > len(b.head)-off {
		return core.ErrInvalidValue
	}
	b.off, b.n = off, n
	return nil
}

// SetDataLen makes the first n bytes from the start of the data the valid
// ones. They must lie in the window, or it is ErrInvalidValue and nothing
// changes.
func (b *Buf) SetDataLen(n int) error {
	if err := b.changeable(); err != nil {
		return err
	}
	if n < 0 || n > len(b.head)-b.off {
		return core.ErrInvalidValue
	}
	b.n = n
	return nil
}

// ResetDataLen makes the data empty, where it starts: what a destination needs
// before it is used again, as tasks append to the data.
func (b *Buf) ResetDataLen() error {
	if err := b.changeable(); err != nil {
		return err
	}
	b.n = 0
	return nil
}

// Grow adds to the data the n bytes behind it, which the caller has written.
// It is for libraries, and is the one change that a lent buf takes: on the
// engine's goroutine, when a task that wrote here completes. More than Tail is
// ErrInvalidValue and changes nothing.
func (b *Buf) Grow(n int) error {
	if n < 0 || n > b.Tail() {
		return core.ErrInvalidValue
	}
	b.n += n
	return nil
}

// Refs returns the reference count. An element of a list that is not its head
// has 1: it lives as long as its head.
func (b *Buf) Refs() int { return int(b.refs) }

// Ref adds a reference and returns how many there were. It is ErrNotPermitted
// for an element of a list that is not its head, and ErrTooBig above 65535.
func (b *Buf) Ref() (int, error) {
	switch {
	case b == nil:
		return 0, core.ErrInvalidValue
	case b.flags&member != 0:
		return 0, core.ErrNotPermitted
	case b.refs == 0:
		return 0, core.ErrBadState
	case b.refs == math.MaxUint16:
		return 0, core.ErrTooBig
	}
	b.refs++
	return int(b.refs) - 1, nil
}

// Unref drops a reference and returns how many there were. The last one
// returns the whole list to where its elements came from, now or, if it is
// lent, when the last loan ends; either way the caller must not use it any
// more. It is ErrNotPermitted for an element of a list that is not its head,
// and ErrBadState for a buf without references.
func (b *Buf) Unref() (int, error) {
	switch {
	case b == nil:
		return 0, core.ErrInvalidValue
	case b.flags&member != 0:
		return 0, core.ErrNotPermitted
	case b.refs == 0:
		return 0, core.ErrBadState
	}
	b.refs--
	if b.refs == 0 && b.pins == 0 {
		b.release()
		return 1, nil
	}
	return int(b.refs) + 1, nil
}

// release returns every element of the list to its shelf.
func (b *Buf) release() {
	for b != nil {
		next := b.next
		b.home.put(b)
		b = next
	}
}
