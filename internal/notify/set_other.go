//go:build !linux

package notify

import (
	"errors"
	"time"
)

// A Set needs epoll; here New answers errors.ErrUnsupported, so that no other
// method is ever reached.
type Set struct{}

// New answers errors.ErrUnsupported.
func New() (*Set, error) { return nil, errors.ErrUnsupported }

// FD returns -1.
func (s *Set) FD() int { return -1 }

// Add answers errors.ErrUnsupported.
func (s *Set) Add(int) error { return errors.ErrUnsupported }

// Remove answers errors.ErrUnsupported.
func (s *Set) Remove(int) error { return errors.ErrUnsupported }

// Signal does nothing.
func (s *Set) Signal() {}

// Clear answers errors.ErrUnsupported.
func (s *Set) Clear() error { return errors.ErrUnsupported }

// TakeSignals answers errors.ErrUnsupported.
func (s *Set) TakeSignals() (int, error) { return 0, errors.ErrUnsupported }

// SetTimer answers errors.ErrUnsupported.
func (s *Set) SetTimer(time.Duration) error { return errors.ErrUnsupported }

// StopTimer answers errors.ErrUnsupported.
func (s *Set) StopTimer() error { return errors.ErrUnsupported }

// Readable reports false.
func (s *Set) Readable() bool { return false }

// Park answers errors.ErrUnsupported.
func (s *Set) Park() error { return errors.ErrUnsupported }

// Wait answers errors.ErrUnsupported.
func (s *Set) Wait() error { return errors.ErrUnsupported }

// Interrupt does nothing.
func (s *Set) Interrupt() {}

// Resume does nothing.
func (s *Set) Resume() {}

// Close does nothing.
func (s *Set) Close() error { return nil }
