// Package ipc lets processes of one user on one machine find each other by
// name, and gives them a socket for messages that can carry descriptors.
//
// Names are files in one directory: the one that GANTRY_RUNTIME_DIR names, else
// gantry in the one that XDG_RUNTIME_DIR names, else gantry-UID in the directory
// for temporary files. It belongs to the user alone, or it is refused. Two
// containers that share the directory find each other too.
//
// A name has a lock and a socket. The lock decides who is alive: the system
// frees it when its owner ends, however that happens. What a killed owner leaves
// are the two files, and the next [Listen] of any name removes them.
//
// Both sides check that the other is a process of the same user. What comes in
// messages is still not to be trusted: this package bounds its size and the
// number of descriptors, and the rest is up to the packages above.
package ipc

import "errors"

var (
	// ErrTaken is that of Listen when a process that is alive has the name.
	ErrTaken = errors.New("another process that is alive has the name")
	// ErrNobody is that of Dial when nobody listens on the name.
	ErrNobody = errors.New("nobody listens on the name")
	// ErrStranger is that of Dial when the listener is another user's.
	ErrStranger = errors.New("the peer is a process of another user")
	// ErrGone is that of Send and TrySend when the peer closed the connection, or died.
	ErrGone = errors.New("the peer closed the connection")
	// ErrFull is that of TrySend when the peer has not taken what was sent.
	ErrFull = errors.New("the peer does not take what is sent")
	// ErrMessage is that of Send and TrySend for a message beyond the limits,
	// and of Recv for one that is longer than the space
	// for it, or that has more descriptors than MaxFDs or than this process can
	// have.
	ErrMessage = errors.New("the message is too long or has too many descriptors")
)

const (
	// MaxMessage is how many bytes a message can have.
	MaxMessage = 32 << 10
	// MaxFDs is how many descriptors a message can have.
	MaxFDs = 4
)
