package securechannel

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/side"
)

// meet waits for the other side as long as it may.
func (s *session) meet(ctx context.Context) error {
	wait, cancel := ctx, context.CancelFunc(func() {})
	if s.Wait > 0 {
		wait, cancel = context.WithTimeout(ctx, s.Wait)
	}
	defer cancel()
	find := s.findServer
	if s.Side == DPU {
		find = s.awaitClient
	}
	err := find(wait)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		return fmt.Errorf("nobody came to the %v side in %v: start the other side: %w", s.Side.Other(), s.Wait, core.ErrTimeOut)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// awaitClient is the DPU's part.
func (s *session) awaitClient(ctx context.Context) error {
	if err := s.server.Start(); err != nil {
		if errors.Is(err, core.ErrAlreadyExists) {
			return fmt.Errorf("another process is the DPU side for the host function %s already: stop it, or choose another function: %w", s.rep.Info().PCI(), err)
		}
		return err
	}
	s.Note(fmt.Sprintf("the DPU side on %s waits for the host side on %s", s.device.Info().PCI(), s.rep.Info().PCI()))
	return s.drive(ctx, func() bool { return s.conn != nil })
}

// findServer is the host's part.
func (s *session) findServer(ctx context.Context) error {
	found := func(c *comch.Connection) { s.conn = c }
	absent := func() { s.Note(fmt.Sprintf("the host side on %s waits for the DPU side", s.device.Info().PCI())) }
	return side.Connect(ctx, s.engine, s.client, found, absent)
}

// leave ends the control path. What was said still arrives.
func (s *session) leave() error {
	if s.Side == DPU {
		return side.Leave(s.server.Shutdown, s.conn)
	}
	return side.Leave(s.client.Shutdown, s.conn)
}

// close takes apart what open made.
func (s *session) close() (err error) {
	if s.server != nil {
		core.KeepFirst(&err, s.server.Shutdown(context.Background())) // it may wait for a client yet
		core.KeepFirst(&err, s.server.Destroy())
	}
	if s.client != nil {
		core.KeepFirst(&err, s.client.Shutdown(context.Background()))
		core.KeepFirst(&err, s.client.Destroy())
	}
	core.KeepFirst(&err, s.engine.Destroy())
	if s.rep != nil {
		core.KeepFirst(&err, s.rep.Close())
	}
	if s.device != nil {
		core.KeepFirst(&err, s.device.Close())
	}
	return err
}
