package mem

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// An Inventory is a fixed stock of bufs that can be pointed anywhere in any
// map. It is made stopped; only a started one gives bufs.
//
// It belongs to one goroutine, as do the bufs that it gave. A nil Inventory is
// ErrInvalidValue.
type Inventory struct {
	shelf
	state    shelfState
	userWord uint64
	userAny  any
}

// A shelfState is where an inventory or a pool is in its life.
type shelfState uint8

const (
	shelfStopped shelfState = iota
	shelfStarted
	shelfDestroyed
)

// NewInventory makes a stopped inventory of n bufs. It is ErrInvalidValue
// below 1, and ErrNoMemory above MaxElements.
func NewInventory(n int) (*Inventory, error) {
	switch {
	case n < 1:
		return nil, fmt.Errorf("new inventory of %d bufs: %w", n, core.ErrInvalidValue)
	case n > MaxElements:
		return nil, fmt.Errorf("new inventory of %d bufs: the limit is %d: %w", n, MaxElements, core.ErrNoMemory)
	}
	i := &Inventory{}
	i.stock(n)
	return i, nil
}

// Start makes the inventory give bufs. It is ErrBadState if it is started or
// destroyed.
func (i *Inventory) Start() error {
	switch {
	case i == nil:
		return fmt.Errorf("start a nil inventory: %w", core.ErrInvalidValue)
	case i.state != shelfStopped:
		return fmt.Errorf("start inventory: it is started or destroyed: %w", core.ErrBadState)
	}
	i.state = shelfStarted
	return nil
}

// Stop makes the inventory give no more bufs. Those that are out stay valid
// and can be returned. Stopping a stopped inventory succeeds.
func (i *Inventory) Stop() error {
	switch {
	case i == nil:
		return fmt.Errorf("stop a nil inventory: %w", core.ErrInvalidValue)
	case i.state == shelfDestroyed:
		return fmt.Errorf("stop a destroyed inventory: %w", core.ErrBadState)
	}
	i.state = shelfStopped
	return nil
}

// Destroy ends the inventory, started or not. It is ErrInUse while bufs are
// out, and then changes nothing.
func (i *Inventory) Destroy() error {
	switch {
	case i == nil:
		return fmt.Errorf("destroy a nil inventory: %w", core.ErrInvalidValue)
	case i.state == shelfDestroyed:
		return fmt.Errorf("destroy a destroyed inventory: %w", core.ErrBadState)
	case i.nfree != i.n:
		return fmt.Errorf("destroy inventory: %d of %d bufs are out: %w", i.n-i.nfree, i.n, core.ErrInUse)
	}
	*i = Inventory{state: shelfDestroyed}
	return nil
}

// Expand adds n bufs to a started inventory. It allocates. It is ErrBadState
// if the inventory is not started, and ErrInvalidValue for n below 1 or a sum
// above MaxElements.
func (i *Inventory) Expand(n int) error {
	switch {
	case i == nil:
		return fmt.Errorf("expand a nil inventory: %w", core.ErrInvalidValue)
	case i.state != shelfStarted:
		return fmt.Errorf("expand inventory: it is not started: %w", core.ErrBadState)
	case n < 1:
		return fmt.Errorf("expand inventory by %d bufs: %w", n, core.ErrInvalidValue)
	case n > MaxElements-i.n:
		return fmt.Errorf("expand inventory of %d by %d bufs: the limit is %d: %w",
			i.n, n, MaxElements, core.ErrInvalidValue)
	}
	i.stock(n)
	return nil
}

// Len returns how many bufs the inventory has, free or out.
func (i *Inventory) Len() int { return i.n }

// Free returns how many bufs are free.
func (i *Inventory) Free() int { return i.nfree }

// SetUserData keeps a word and a value for the application. As in DOCA, it is
// ErrBadState until the inventory is started.
func (i *Inventory) SetUserData(word uint64, v any) error {
	switch {
	case i == nil:
		return fmt.Errorf("set user data of a nil inventory: %w", core.ErrInvalidValue)
	case i.state != shelfStarted:
		return fmt.Errorf("set user data: the inventory is not started: %w", core.ErrBadState)
	}
	i.userWord, i.userAny = word, v
	return nil
}

// UserData returns what SetUserData kept.
func (i *Inventory) UserData() (word uint64, v any) { return i.userWord, i.userAny }
