//go:build !linux

package sys

import (
	"errors"
	"net/netip"
	"time"
)

// AwaitDelivery answers errors.ErrUnsupported.
func AwaitDelivery(netip.Addr, time.Duration) (bool, error) { return false, errors.ErrUnsupported }
