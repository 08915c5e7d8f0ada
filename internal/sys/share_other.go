//go:build !linux

package sys

import (
	"errors"
	"syscall"
)

// ImportPages is unsupported.
func ImportPages(int, int, bool) (*Pages, error) { return nil, errors.ErrUnsupported }

// PeerUID is unsupported.
func PeerUID(syscall.Conn) (int, error) { return -1, errors.ErrUnsupported }

// A Doorbell wakes another process. There is none here.
type Doorbell struct{}

// NewDoorbell is unsupported.
func NewDoorbell() (mine, theirs *Doorbell, err error) { return nil, nil, errors.ErrUnsupported }

// DoorbellFromFD is unsupported.
func DoorbellFromFD(int) (*Doorbell, error) { return nil, errors.ErrUnsupported }

// Ring is unsupported.
func (d *Doorbell) Ring() error { return errors.ErrUnsupported }

// Drain finds nothing.
func (d *Doorbell) Drain() (n int, gone bool) { return 0, true }

// FD returns -1.
func (d *Doorbell) FD() int { return -1 }

// Close does nothing.
func (d *Doorbell) Close() error { return nil }
