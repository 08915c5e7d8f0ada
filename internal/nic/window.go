package nic

import (
	"fmt"
	"sync"

	"github.com/gantry-rdma/gantry/internal/qp"
)

// ZeroBased lets the addresses of a region, or of a window, begin at 0. It is
// not a right.
const ZeroBased qp.Access = 1 << 5

const (
	remoteRights = qp.RemoteRead | qp.RemoteWrite | qp.RemoteAtomic
	flushRights  = qp.RemoteFlushGlobal | qp.RemoteFlushPersistent
)

// A WindowType is how a window is bound. The numbers are those of verbs.
type WindowType uint8

// The types of windows.
const (
	WindowType1 WindowType = 1 // for all queue pairs of its domain; binding again replaces
	WindowType2 WindowType = 2 // for the queue pair that bound it; to be invalidated before it is bound again
)

// An MW is a memory window: a key that a send queue gives to a piece of a region,
// and takes back, without a call that waits. Its methods may be called from any
// goroutine.
//
// It has a place in the table of regions, with a region that is always dead: so
// what looks up regions costs no more because there are windows. Who finds that
// one looks into the window, which has a lock of its own: what is bound changes
// in place, and nothing is allocated for it.
type MW struct {
	d     *Device
	pd    *PD
	typ   WindowType
	index uint32 // in the table
	freed bool   // under the lock of the table, as is to
	to    *MR    // that it is bound to, or nil
	done  bool   // given up, and nothing refers to its memory; under closing

	closing sync.Mutex

	// What each access looks at. It is written under the lock of the table too.
	mu     sync.Mutex
	key    uint32
	bound  region // without a key
	binder *QP    // of type 2
}

// NewMW returns a window that is not bound.
func (p *PD) NewMW(t WindowType) (*MW, error) {
	if t != WindowType1 && t != WindowType2 {
		return nil, fmt.Errorf("memory window of type %d: %w", t, ErrInvalid)
	}
	d := p.d
	w := &MW{d: d, pd: p, typ: t}
	if n := int(d.mws.Add(1)); n > d.limits.MW {
		d.mws.Add(-1)
		return nil, fmt.Errorf("allocate a memory window, %d exist: %w", d.limits.MW, ErrNoMemory)
	}
	gen := d.keys.generation.Add(1)
	d.keys.regions.add(numbers/4, anyNumber, func(n uint32) *region {
		w.index, w.key = n, n<<8|gen&0xff
		return &region{key: n << 8, dead: true, window: w}
	})
	p.users.Add(1)
	return w, nil
}

// Key returns the key that the window has: of type 1 the one that it was last
// bound with.
func (w *MW) Key() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key
}

// Dealloc takes the window back from whatever it is bound to, and waits until no
// packet refers to the memory. Busy means that some peer is slow to take packets:
// the key is dead, but the memory must stay. Call it again then.
func (w *MW) Dealloc() error {
	w.closing.Lock()
	defer w.closing.Unlock()
	if w.done {
		return fmt.Errorf("memory window: %w", ErrClosed)
	}
	if w.free() {
		w.d.keys.regions.remove(w.index)
	}
	if err := w.d.settle(); err != nil {
		return err
	}
	w.done = true
	w.d.mws.Add(-1)
	w.pd.users.Add(-1)
	return nil
}

// free lets the window open nothing any more, and reports whether it could have.
func (w *MW) free() bool {
	t := &w.d.keys.regions
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.freed {
		return false
	}
	w.freed = true
	w.set(w.key, nil, region{}, nil)
	return true
}

// set binds the window, or with no region takes it back. The caller has the lock
// of the table.
func (w *MW) set(key uint32, to *MR, bound region, binder *QP) {
	if w.to != nil {
		w.to.windows--
	}
	if w.to = to; to != nil {
		to.windows++
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.bound, w.binder = key, bound, binder
}

// open returns n bytes at addr of what the window is bound to, for a request to q.
func (w *MW) open(q *QP, key uint32, addr uint64, n int, need qp.Access) ([]byte, keyFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.allows(q, key, need); f != keyGood {
		return nil, f
	}
	b, ok := w.bound.span(addr, n)
	if !ok {
		return nil, keyRange
	}
	return b, keyGood
}

// whole returns all that the window is bound to.
func (w *MW) whole(q *QP, key uint32, need qp.Access) ([]byte, keyFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bound.mem, w.allows(q, key, need)
}

func (w *MW) allows(q *QP, key uint32, need qp.Access) keyFault {
	switch {
	case key != w.key || w.bound.mem == nil:
		return keyStale
	case w.pd != q.pd || w.binder != nil && w.binder != q:
		return keyDomain
	case w.bound.access&need != need:
		return keyRight
	}
	return keyGood
}

// window returns the window that may have a key, or nil.
func (k *keys) window(key uint32) *MW {
	r := k.regions.at(key >> 8)
	if r == nil || r.window == nil || r.key>>8 != key>>8 {
		return nil
	}
	return r.window
}

// bind binds a window for q, or takes one of type 1 away, and reports whether it
// may be (IBTA Vol 1, 10.6.7.2, and the checks of the kernel's driver).
func (k *keys) bind(q *QP, b *qp.Binding) bool {
	t := &k.regions
	t.mu.Lock()
	defer t.mu.Unlock()
	w := k.window(b.Window)
	if w == nil || w.freed || w.pd != q.pd || b.Key>>8 != w.index {
		return false
	}
	var binder *QP
	if w.typ == WindowType2 {
		if w.to != nil || b.Len == 0 {
			return false
		}
		binder = q
	} else if b.Access&ZeroBased != 0 {
		return false
	}
	if b.Len == 0 {
		w.set(b.Key, nil, region{}, nil)
		return true
	}
	bound, r := k.piece(q.pd, b)
	if r == nil {
		return false
	}
	w.set(b.Key, r.mr, bound, binder)
	return true
}

// piece returns the part of a region that a window is to be bound to, and the
// region; or nil when it may not be. The rights of peers to the window are its
// own, and need not be rights to the region; but what they change must be
// writable, and what they flush be known to be.
func (k *keys) piece(pd *PD, b *qp.Binding) (bound region, r *region) {
	r = k.regions.at(b.LKey >> 8)
	if r == nil || r.key != b.LKey || r.dead || r.pd != pd {
		return bound, nil
	}
	changes := b.Access&(qp.RemoteWrite|qp.RemoteAtomic) != 0
	switch {
	case r.access&qp.BindWindow == 0, r.access&ZeroBased != 0,
		b.Access&^(remoteRights|flushRights|ZeroBased) != 0,
		changes && r.access&qp.LocalWrite == 0,
		b.Access&flushRights&^r.access != 0,
		b.Len > uint64(len(r.mem)):
		return bound, nil
	}
	mem, ok := r.span(b.Addr, int(b.Len))
	if !ok {
		return bound, nil
	}
	bound = region{mem: mem, base: b.Addr, access: b.Access}
	if b.Access&ZeroBased != 0 {
		bound.base = 0
	}
	return bound, r
}

// withdraw invalidates a window for q, and reports whether it may: it is of type
// 2, has that key, and q bound it. The caller has the lock of the table.
func (w *MW) withdraw(q *QP, key uint32) bool {
	if w.typ != WindowType2 || w.to == nil || w.key != key || w.binder != q {
		return false
	}
	w.set(key, nil, region{}, nil)
	return true
}
