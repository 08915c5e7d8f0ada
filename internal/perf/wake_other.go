//go:build !linux

package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// MeasureWake answers core.ErrNotSupported: an engine has no descriptor here.
func MeasureWake(context.Context, time.Duration, Watch) (WakeResult, error) {
	return WakeResult{Wakes: []WakePoint{}}, fmt.Errorf("an engine has no descriptor on this system: %w", core.ErrNotSupported)
}
