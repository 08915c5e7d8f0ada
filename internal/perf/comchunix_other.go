//go:build !linux

package perf

import (
	"errors"
	"os"
)

// unixPair makes two connected sockets: here it cannot, and no more can Comch.
func unixPair() (mine, theirs *os.File, err error) { return nil, nil, errors.ErrUnsupported }
