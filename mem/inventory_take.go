package mem

import "github.com/gantry-rdma/gantry/core"

// ByArgs takes a buf for the n bytes at addr of m, in which the dataLen bytes
// at data are valid.
//
// It is ErrBadState if the inventory or the map is not started,
// ErrInvalidValue if the bytes are not in the map or the data is not in the
// bytes, and ErrNoMemory if no buf is free. No bytes at all are allowed:
// a task with such a buf fails.
func (i *Inventory) ByArgs(m *Map, addr Addr, n int, data Addr, dataLen int) (*Buf, error) {
	switch {
	case i == nil || m == nil:
		return nil, core.ErrInvalidValue
	case i.state != shelfStarted || !m.Started():
		return nil, core.ErrBadState
	}
	head, ok := m.window(addr, n)
	if !ok {
		return nil, core.ErrInvalidValue
	}
	off, ok := data.offset(dataLen, addr, n)
	if !ok {
		return nil, core.ErrInvalidValue
	}
	b := i.take(m, head, addr, off, dataLen)
	if b == nil {
		return nil, core.ErrNoMemory
	}
	return b, nil
}

// ByAddr is ByArgs without data: what a task writes to. As a source it has
// nothing to read; use ByData.
func (i *Inventory) ByAddr(m *Map, addr Addr, n int) (*Buf, error) {
	return i.ByArgs(m, addr, n, addr, 0)
}

// ByData is ByArgs with every byte valid: what a task reads from. As a
// destination it has no room; use ByAddr.
func (i *Inventory) ByData(m *Map, data Addr, n int) (*Buf, error) {
	return i.ByArgs(m, data, n, data, n)
}

// Dup takes bufs that describe the same memory as the list of b, with the same
// data, element by element: a new list with one reference. The bytes
// themselves are shared. b may be lent, and may come from elsewhere.
//
// It takes all elements or none. It is ErrNotPermitted if b is not the head of
// its list, ErrBadState if the inventory or a map is not started or b has no
// references, and ErrNoMemory if too few bufs are free.
func (i *Inventory) Dup(b *Buf) (*Buf, error) {
	switch {
	case i == nil || b == nil:
		return nil, core.ErrInvalidValue
	case b.flags&member != 0:
		return nil, core.ErrNotPermitted
	case i.state != shelfStarted || b.refs == 0:
		return nil, core.ErrBadState
	}
	for e := b; e != nil; e = e.next {
		if !e.m.Started() {
			return nil, core.ErrBadState
		}
	}
	if b.count > i.nfree {
		return nil, core.ErrNoMemory
	}
	list := i.take(b.m, b.head, b.addr, b.off, b.n)
	for e := b.next; e != nil; e = e.next {
		list.link(i.take(e.m, e.head, e.addr, e.off, e.n))
	}
	return list, nil
}

// ReuseByArgs points b, a taken buf of this inventory, at another place of the
// same map, as ByArgs would. References and list stay as they are: in a list,
// any element can be pointed elsewhere. It saves Unref and ByArgs.
//
// It is ErrInvalidValue for bytes as in ByArgs and for a buf of another
// inventory, ErrInUse while b is lent, and ErrBadState if b has no references,
// or the inventory or the map is not started. Then nothing changes.
func (i *Inventory) ReuseByArgs(b *Buf, addr Addr, n int, data Addr, dataLen int) error {
	if err := b.changeable(); err != nil {
		return err
	}
	switch {
	case i == nil || b.home != &i.shelf:
		return core.ErrInvalidValue
	case i.state != shelfStarted || !b.m.Started():
		return core.ErrBadState
	}
	head, ok := b.m.window(addr, n)
	if !ok {
		return core.ErrInvalidValue
	}
	off, ok := data.offset(dataLen, addr, n)
	if !ok {
		return core.ErrInvalidValue
	}
	b.head, b.addr, b.off, b.n = head, addr, off, dataLen
	return nil
}

// ReuseByAddr is ReuseByArgs without data.
func (i *Inventory) ReuseByAddr(b *Buf, addr Addr, n int) error {
	return i.ReuseByArgs(b, addr, n, addr, 0)
}

// ReuseByData is ReuseByArgs with every byte valid.
func (i *Inventory) ReuseByData(b *Buf, data Addr, n int) error {
	return i.ReuseByArgs(b, data, n, data, n)
}
