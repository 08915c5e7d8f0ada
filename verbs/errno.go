package verbs

import (
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/internal/nic"
)

// An Errno is an error number, with the values that Linux has. It is an error
// that costs nothing to return.
type Errno uint8

// The error numbers that this package returns.
const (
	EAGAIN     Errno = 11 // nothing there yet
	ENOMEM     Errno = 12 // the queue is full, or a limit is reached
	EBUSY      Errno = 16 // still in use
	EINVAL     Errno = 22 // an argument is wrong, or the state does not allow the call
	EBADF      Errno = 9  // closed or destroyed
	EOPNOTSUPP Errno = 95 // not supported, by this device or on this system
)

var errnoTexts = map[Errno]string{
	EAGAIN: "try again", ENOMEM: "queue full or limit reached", EBUSY: "still in use",
	EINVAL: "invalid argument", EBADF: "closed", EOPNOTSUPP: "not supported",
}

// Error returns what the number means.
func (e Errno) Error() string {
	if s, ok := errnoTexts[e]; ok {
		return s
	}
	return fmt.Sprintf("errno %d", uint8(e))
}

// numbered returns err with the number that it stands for in its chain.
func numbered(err error) error {
	if err == nil {
		return nil
	}
	for _, x := range [...]struct {
		err error
		no  Errno
	}{
		{nic.ErrInvalid, EINVAL}, {nic.ErrNoMemory, ENOMEM}, {nic.ErrBusy, EBUSY},
		{nic.ErrClosed, EBADF}, {nic.ErrUnsupported, EOPNOTSUPP},
	} {
		if errors.Is(err, x.err) {
			return numberedError{err, x.no}
		}
	}
	return err
}

// A numberedError is an error that also is a number.
type numberedError struct {
	err error
	no  Errno
}

func (e numberedError) Error() string   { return e.err.Error() }
func (e numberedError) Unwrap() []error { return []error{e.err, e.no} }

// invalid returns an error for an argument that is wrong.
func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, EINVAL)...)
}
