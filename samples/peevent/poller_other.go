//go:build !linux

package peevent

import "github.com/gantry-rdma/gantry/core"

// A poller needs epoll.
type poller struct{}

func newPoller(int) (*poller, error) { return nil, core.ErrNotSupported }

func (p *poller) wait() error { return core.ErrNotSupported }

func (p *poller) close() error { return nil }
