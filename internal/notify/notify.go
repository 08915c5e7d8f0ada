// Package notify offers one stable, pollable descriptor that many sources can
// make readable: a local event, a timer, and descriptors of others.
//
// A [Set] is a level: it stays readable until [Set.Clear] is called and every
// source is quiet. The descriptor works inside a program's own epoll set, and
// [Set.Wait] parks a goroutine on it without holding a thread.
package notify

import "errors"

// ErrInterrupted is what Wait returns after Interrupt.
var ErrInterrupted = errors.New("wait interrupted")
