package cm

import (
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/internal/conn"
	"github.com/gantry-rdma/gantry/verbs"
)

// An Errno is an error number, with the values that Linux has. Where package
// verbs has the same number, errors.Is finds that one too.
type Errno uint8

// The error numbers that this package returns.
const (
	EBADF         Errno = 9   // closed
	ENOMEM        Errno = 12  // too many connections
	EINVAL        Errno = 22  // an argument is wrong, or the state does not allow the call
	EADDRINUSE    Errno = 98  // somebody else listens there
	EADDRNOTAVAIL Errno = 99  // not an address of the device, or not one that it can reach
	ETIMEDOUT     Errno = 110 // the peer did not answer
	ECONNREFUSED  Errno = 111 // the peer, or its program, said no
)

var errnoTexts = map[Errno]string{
	EBADF: "closed", ENOMEM: "limit reached", EINVAL: "invalid argument", EADDRINUSE: "address in use",
	EADDRNOTAVAIL: "address not available", ETIMEDOUT: "no answer", ECONNREFUSED: "connection refused",
}

// Error returns what the number means.
func (e Errno) Error() string {
	if s, ok := errnoTexts[e]; ok {
		return s
	}
	return fmt.Sprintf("errno %d", uint8(e))
}

// Is reports whether target is the same number.
func (e Errno) Is(target error) bool {
	v, ok := target.(verbs.Errno)
	return ok && uint8(v) == uint8(e)
}

// numbered returns err of a machine with the number that it stands for.
func numbered(err error, c *conn.Conn) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, conn.ErrInUse):
		return EADDRINUSE
	case errors.Is(err, conn.ErrFull):
		return fmt.Errorf("%w: %w", err, ENOMEM)
	case errors.Is(err, conn.ErrState) && c != nil:
		return fmt.Errorf("connection in state %v: %w", c.State(), EINVAL)
	}
	return fmt.Errorf("%w: %w", err, EINVAL)
}

// invalid returns an error for an argument that is wrong.
func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, EINVAL)...)
}
