package rendezvous

import (
	"errors"
	"fmt"
)

// What is wrong, for programs: errors of [Errorf] are of one of these kinds, and
// say in a sentence of their own what was found.
var (
	// ErrPeer: the other end does something else than this one.
	ErrPeer = errors.New("the other end does not play along")
	// ErrLost: something has not come, or the other end has fallen silent.
	ErrLost = errors.New("no answer")
	// ErrContents: a message holds other bytes than it should.
	ErrContents = errors.New("the contents are wrong")
	// ErrParameter: a parameter is not possible. The sentence begins with the
	// name of its flag.
	ErrParameter = errors.New("not possible")
)

// A fault is an error whose kind is not part of its sentence.
type fault struct {
	error
	kind error
}

// Errorf returns an error of a kind, with a sentence as fmt.Errorf makes it. It
// wraps the kind, and what the sentence wraps.
func Errorf(kind error, format string, args ...any) error {
	return fault{fmt.Errorf(format, args...), kind}
}

// Unwrap returns what the sentence wraps, and the kind.
func (f fault) Unwrap() []error { return []error{f.error, f.kind} }
