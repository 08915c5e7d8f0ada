package nic

import (
	"time"

	"github.com/gantry-rdma/gantry/internal/qp"
)

var start = time.Now()

// instant reads the monotonic clock: tens of nanoseconds, so it is read once
// per batch.
func instant() qp.Instant { return qp.Instant(time.Since(start)) + 1 }
