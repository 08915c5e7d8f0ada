//go:build !linux

package probe

import "errors"

// Memlock returns how many bytes this process may lock into memory: here,
// errors.ErrUnsupported.
func Memlock() (max uint64, err error) { return 0, errors.ErrUnsupported }

// UDPSegment tries generic segmentation offload, which is Linux's:
// errors.ErrUnsupported.
func UDPSegment() error { return errors.ErrUnsupported }

// UDPReceive tries generic receive offload, which is Linux's:
// errors.ErrUnsupported.
func UDPReceive() error { return errors.ErrUnsupported }
