package side

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
)

// retry is how long Connect waits before it looks for the server again.
const retry = 50 * time.Millisecond

// Connect connects a client to its server, which may have to be started first:
// it tries until ctx is done, and then returns its cause. e is the engine of the
// client, whose state function it sets.
//
// found is given the connection before anything comes on it, and before a server
// that is busy ends it. When nobody is there at the first try, absent is called.
func Connect(ctx context.Context, e *core.Engine, k *comch.Client, found func(*comch.Connection), absent func()) error {
	connected := false
	k.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			c, _ := k.Connection() // which a running client has
			found(c)
			connected = true
		}
	})
	for told := false; ; told = true {
		if err := k.Start(); err != nil && !errors.Is(err, core.ErrInProgress) {
			return err
		}
		settled := func() bool { return connected || k.State() == core.Idle }
		if err := e.Run(ctx, settled); err != nil {
			return err
		}
		if connected {
			return nil
		}
		if err := k.Err(); !errors.Is(err, core.ErrNotFound) {
			return err
		}
		if !told {
			absent()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retry):
		}
	}
}

// patience is how long a side that stands still is given to read what it was
// sent, and to answer, before the connection is cut.
const patience = 2 * time.Second

// Leave ends a context with shutdown, its method: that of the control path, or a
// producer or consumer. What was sent on conn, which may be nil, still arrives,
// and the peer lets go of what it uses of this side; but if it does neither, the
// connection is cut.
func Leave(shutdown func(context.Context) error, conn *comch.Connection) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := shutdown(ctx)
	if err == nil || conn == nil {
		return err
	}
	conn.Abort()
	return shutdown(context.Background())
}
