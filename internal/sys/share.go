package sys

import "errors"

var (
	// ErrNotSealed is that of ImportPages for a descriptor whose memory another
	// process could take away, or that is none of shareable memory at all.
	ErrNotSealed = errors.New("the descriptor is not of shareable memory with a fixed size")
	// ErrTooSmall is that of ImportPages for memory of fewer bytes than asked for.
	ErrTooSmall = errors.New("the shared memory is smaller than announced")
	// ErrGone is that of a Doorbell whose other end is closed.
	ErrGone = errors.New("the other end is closed")
)
