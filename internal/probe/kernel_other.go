//go:build !linux

package probe

import (
	"errors"
	"os"
)

// Memlock returns how many bytes this process may lock into memory: here,
// errors.ErrUnsupported.
func Memlock() (max uint64, err error) { return 0, errors.ErrUnsupported }

// UDPSegment tries generic segmentation offload, which is Linux's:
// errors.ErrUnsupported.
func UDPSegment() error { return errors.ErrUnsupported }

// UDPReceive tries generic receive offload, which is Linux's:
// errors.ErrUnsupported.
func UDPReceive() error { return errors.ErrUnsupported }

// scratch makes a file without a name, where the system lets an open file lose
// it.
func scratch() (*os.File, error) {
	f, err := os.CreateTemp("", "gantry-probe-*")
	if err == nil {
		_ = os.Remove(f.Name())
	}
	return f, err
}
