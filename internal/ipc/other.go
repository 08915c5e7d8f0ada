//go:build !linux

package ipc

import (
	"context"
	"errors"
	"time"
)

// Directory returns nothing: there are no names.
func Directory() string { return "" }

// A Listener has a name. There is none here.
type Listener struct{}

// Listen is unsupported.
func Listen(string) (*Listener, error) { return nil, errors.ErrUnsupported }

// Accept is unsupported.
func (l *Listener) Accept() (*Conn, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (l *Listener) Close() error { return nil }

// A Conn is a connection. There is none here.
type Conn struct{}

// Dial is unsupported.
func Dial(context.Context, string) (*Conn, error) { return nil, errors.ErrUnsupported }

// Send is unsupported.
func (c *Conn) Send([]byte, ...int) error { return errors.ErrUnsupported }

// TrySend is unsupported.
func (c *Conn) TrySend([]byte, ...int) error { return errors.ErrUnsupported }

// Recv is unsupported.
func (c *Conn) Recv([]byte) (n int, fds []int, err error) { return 0, nil, errors.ErrUnsupported }

// SetDeadline is unsupported.
func (c *Conn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// Close does nothing.
func (c *Conn) Close() error { return nil }

// CloseAll does nothing: no descriptor ever came.
func CloseAll([]int) {}
