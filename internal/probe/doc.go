// Package probe finds out what the machine can do, by trying it on loopback or
// by reading what the kernel tells: it changes nothing and needs no rights.
//
// A probe that tries something returns nil when it worked,
// errors.ErrUnsupported on a system that does not have it, and else an error
// that says what happened. What follows from it is for the caller to say.
package probe
