package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
)

// Patience is how long a client tries again to reach a server that is not there
// yet, so that a script can start both ends at once.
const Patience = 2 * time.Second

// Dial connects to a server over TCP. Its error ends with the advice when
// nobody listened for as long as Patience, and is the cause of ctx when that is
// done.
func Dial(ctx context.Context, hostPort, advice string) (conn net.Conn, err error) {
	var d net.Dialer
	for start := time.Now(); ; notify.Nap(10 * time.Millisecond) {
		conn, err = d.DialContext(ctx, "tcp", hostPort)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close() // nobody is told of it
			}
			return nil, context.Cause(ctx)
		case err == nil:
			return conn, nil
		case !errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("reach the server: %w", err)
		case time.Since(start) > Patience:
			return nil, fmt.Errorf("reach the server: %w: %s", err, advice)
		}
	}
}
