package mem

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// A Pool cuts a map into equal pieces and gives them out as bufs without data.
// It is made stopped; only a started one gives bufs.
//
// It belongs to one goroutine, as do the bufs that it gave. A nil Pool is
// ErrInvalidValue.
type Pool struct {
	shelf
	state    shelfState
	m        *Map
	size     int // bytes of a piece
	align    int // of a piece's address, a power of two
	stride   int // from piece to piece
	first    int // offset of the first piece in the map
	userWord uint64
	userAny  any
}

// NewPool makes a stopped pool of n pieces of m with size bytes each. It is
// ErrInvalidValue for n or size below 1 and for a nil map, and ErrNoMemory for
// n above MaxElements. Whether the pieces fit is checked by Start.
func NewPool(n, size int, m *Map) (*Pool, error) {
	switch {
	case n < 1 || size < 1 || m == nil:
		return nil, fmt.Errorf("new pool of %d bufs of %d bytes, nil map %v: %w", n, size, m == nil, core.ErrInvalidValue)
	case n > MaxElements:
		return nil, fmt.Errorf("new pool of %d bufs: the limit is %d: %w", n, MaxElements, core.ErrNoMemory)
	}
	p := &Pool{m: m, size: size, align: 1}
	p.stock(n)
	return p, nil
}

// SetAlignment makes every piece start at a multiple of align, a power of two;
// 1 if never called. It is ErrInvalidValue for other numbers, and ErrBadState
// unless the pool is stopped.
func (p *Pool) SetAlignment(align int) error {
	switch {
	case p == nil:
		return fmt.Errorf("set alignment of a nil pool: %w", core.ErrInvalidValue)
	case p.state != shelfStopped:
		return fmt.Errorf("set alignment: the pool is started or destroyed: %w", core.ErrBadState)
	case align < 1 || align&(align-1) != 0:
		return fmt.Errorf("set alignment %d: it is no power of two: %w", align, core.ErrInvalidValue)
	}
	p.align = align
	return nil
}

// Start cuts the map and makes the pool give bufs. It is ErrBadState if the
// pool is started or destroyed or the map is not started, and ErrInvalidValue
// if the pieces do not fit into the map.
func (p *Pool) Start() error {
	switch {
	case p == nil:
		return fmt.Errorf("start a nil pool: %w", core.ErrInvalidValue)
	case p.state != shelfStopped:
		return fmt.Errorf("start pool: it is started or destroyed: %w", core.ErrBadState)
	case !p.m.Started():
		return fmt.Errorf("start pool: its map is not started: %w", core.ErrBadState)
	}
	if !p.cut() {
		return fmt.Errorf("start pool: %d bufs of %d bytes, aligned to %d, do not fit into %d bytes: %w",
			p.n, p.size, p.align, len(p.m.mem), core.ErrInvalidValue)
	}
	p.state = shelfStarted
	return nil
}

// cut lays the pieces out and reports whether they fit. It counts in 64 bits
// without a sign, where no size and alignment of type int can overflow.
func (p *Pool) cut() bool {
	mask := uint64(p.align - 1)
	room := uint64(len(p.m.mem))
	first := -uint64(p.m.base) & mask
	stride := (uint64(p.size) + mask) &^ mask
	if first > room || uint64(p.size) > room-first {
		return false
	}
	// The last piece needs its size, each one before it a whole stride.
	if uint64(p.n-1) > (room-first-uint64(p.size))/stride {
		return false
	}
	p.first, p.stride = int(first), int(min(stride, room))
	return true
}

// Stop makes the pool give no more bufs. It is ErrInUse while bufs are out.
// Stopping a stopped pool succeeds.
func (p *Pool) Stop() error {
	switch {
	case p == nil:
		return fmt.Errorf("stop a nil pool: %w", core.ErrInvalidValue)
	case p.state == shelfDestroyed:
		return fmt.Errorf("stop a destroyed pool: %w", core.ErrBadState)
	case p.nfree != p.n:
		return fmt.Errorf("stop pool: %d of %d bufs are out: %w", p.n-p.nfree, p.n, core.ErrInUse)
	}
	p.state = shelfStopped
	return nil
}

// Destroy ends the pool, and stops it first if need be. It fails as Stop does.
func (p *Pool) Destroy() error {
	if err := p.Stop(); err != nil {
		return err
	}
	*p = Pool{state: shelfDestroyed}
	return nil
}

// Alloc takes a buf for a piece that nobody has: the whole piece, no data. It
// allocates nothing. It is ErrBadState if the pool or its map is not started,
// and ErrNoMemory if no piece is free.
func (p *Pool) Alloc() (*Buf, error) {
	switch {
	case p == nil:
		return nil, core.ErrInvalidValue
	case p.state != shelfStarted || !p.m.Started():
		return nil, core.ErrBadState
	case p.free == nil:
		return nil, core.ErrNoMemory
	}
	at := p.first + p.free.slot*p.stride
	return p.take(p.m, p.m.mem[at:at+p.size:at+p.size], p.m.base+Addr(at), 0, 0), nil
}

// Len returns how many pieces the pool has, free or out.
func (p *Pool) Len() int { return p.n }

// Free returns how many pieces are free.
func (p *Pool) Free() int { return p.nfree }

// Size returns the bytes of a piece.
func (p *Pool) Size() int { return p.size }

// SetUserData keeps a word and a value for the application. It is ErrBadState
// unless the pool is stopped.
func (p *Pool) SetUserData(word uint64, v any) error {
	switch {
	case p == nil:
		return fmt.Errorf("set user data of a nil pool: %w", core.ErrInvalidValue)
	case p.state != shelfStopped:
		return fmt.Errorf("set user data: the pool is started or destroyed: %w", core.ErrBadState)
	}
	p.userWord, p.userAny = word, v
	return nil
}

// UserData returns what SetUserData kept.
func (p *Pool) UserData() (word uint64, v any) { return p.userWord, p.userAny }
