//go:build !linux

package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// MeasureModes answers core.ErrNotSupported: an engine has no descriptor here.
func MeasureModes(context.Context, time.Duration, Watch) (ModesResult, error) {
	return noModes(), fmt.Errorf("an engine has no descriptor on this system: %w", core.ErrNotSupported)
}
