//go:build !linux

package sys

import "errors"

// Durable is unsupported.
func Durable([]byte) (bool, error) { return false, errors.ErrUnsupported }

// Sync is unsupported.
func Sync([]byte) error { return errors.ErrUnsupported }
