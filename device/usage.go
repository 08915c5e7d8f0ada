package device

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// A usage counts who has an object open and what holds it. Nothing can hold
// an object that is not open, so holds above zero mean opens above zero.
type usage struct {
	opens int
	holds int
}

// close takes one open back and reports whether it was the last.
func (u *usage) close() (last bool, err error) {
	switch {
	case u.opens == 0:
		return false, fmt.Errorf("it is not open: %w", core.ErrBadState)
	case u.opens == 1 && u.holds > 0:
		return false, fmt.Errorf("this is the last close, and %d users still hold it: %w", u.holds, core.ErrInUse)
	}
	u.opens--
	return u.opens == 0, nil
}

func (u *usage) hold() error {
	if u.opens == 0 {
		return fmt.Errorf("it is not open: %w", core.ErrBadState)
	}
	u.holds++
	return nil
}

func (u *usage) drop() { u.holds = max(u.holds-1, 0) }
