package comch

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/ipc"
)

// A Server has a name, and talks to the clients that connect to it. The
// embedded core.Context is its life: connect it to an engine, start it, stop
// it. All methods belong to the goroutine of its engine.
type Server struct {
	control
	rep  *device.Representor
	name string

	onConnect, onDisconnect func(*Connection, bool)

	listener *ipc.Listener
	accepted chan struct{} // closed when nobody waits for clients any more
	fresh    atomic.Bool   // arrived is not empty
	rejected atomic.Uint64 // see Rejected

	mu      sync.Mutex           // guards what follows
	guests  map[*Connection]bool // being made or established
	arrived []*Connection        // established; the application has not been told
}

// NewServer makes a server on a DPU function, for clients on the host function
// that rep represents. Both stay open until Destroy. It answers
// core.ErrInvalidValue for a nil argument, a representor of another device, and
// a name that is empty, has a NUL, or is longer than MaxNameLen allows; and
// core.ErrNotSupported for a device that cannot have servers.
func NewServer(dev *device.Device, rep *device.Representor, name string) (*Server, error) {
	switch {
	case dev == nil:
		return nil, fmt.Errorf("comch: the device is nil: %w", core.ErrInvalidValue)
	case rep == nil || rep.Device() != dev:
		return nil, fmt.Errorf("comch: the representor is nil or of another device: %w", core.ErrInvalidValue)
	}
	if err := errors.Join(checkName(name), ServerSupported(dev.Info())); err != nil {
		return nil, err
	}
	if err := rep.Hold(); err != nil {
		return nil, fmt.Errorf("comch: %w", err)
	}
	s := &Server{rep: rep, name: name, guests: map[*Connection]bool{}}
	if err := s.init(dev, (*serverSide)(s), "comch server"); err != nil {
		rep.Drop()
		return nil, err
	}
	return s, nil
}

// Destroy ends an idle server and lets go of its device and representor. It
// answers core.ErrInUse while there are connections, or producers or consumers
// of connections that are over, and else core.ErrBadState when the context is
// not idle.
func (s *Server) Destroy() error {
	if err := s.destroy("server"); err != nil {
		return err
	}
	s.rep.Drop()
	return nil
}

// Representor returns the representor of the function that clients are on.
func (s *Server) Representor() *device.Representor { return s.rep }

// Name returns the name of the server.
func (s *Server) Name() string { return s.name }

// SetConnectionFuncs sets the functions that are told, on the engine's
// goroutine, of a client that has connected, and of a connection that is over.
// The second value is true, but for the end of a connection that was lost: the
// client died, or was dropped; [Connection.Err] says more. There must be both.
// It answers core.ErrInvalidValue for nil and core.ErrBadState when the context
// is not idle.
func (s *Server) SetConnectionFuncs(connected, disconnected func(c *Connection, ok bool)) error {
	if err := s.configurable("connection function", connected != nil && disconnected != nil); err != nil {
		return err
	}
	s.onConnect, s.onDisconnect = connected, disconnected
	return nil
}

// Disconnect ends a connection, as a client that stops does: what was sent is
// in the client's queue, and the client hears of the end behind it. The end is
// reported like any other.
//
// It answers core.ErrInvalidValue for a connection that is not one of this
// server or is over, core.ErrInUse while it has producers or consumers on this
// side, and core.ErrAgain while messages wait for room in the client's queue:
// progress and call again, or use [Connection.Abort].
func (s *Server) Disconnect(c *Connection) error {
	switch {
	case c == nil || c.server != s:
		return fmt.Errorf("comch: disconnect: the connection is nil or of another server: %w", core.ErrInvalidValue)
	case c.shut():
		return fmt.Errorf("comch: disconnect: the connection is %v: %w", c.phase(), core.ErrInvalidValue)
	}
	c.mu.Lock()
	n := c.count(seatProducer) + c.count(seatConsumer)
	c.mu.Unlock()
	switch {
	case n > 0:
		return fmt.Errorf("comch: disconnect: there are %d producers and consumers: %w", n, core.ErrInUse)
	case c.unwritten != nil:
		return core.ErrAgain
	}
	c.closing = true
	s.Notify() // the goodbye is up to Poll
	return nil
}

// Rejected returns how many clients did not come in: they were one too many,
// did not keep to the protocol, or left before they were in. Any goroutine.
func (s *Server) Rejected() uint64 { return s.rejected.Load() }

// serverSide is a Server with the methods that its control calls.
type serverSide Server

func (s *serverSide) start() error {
	if s.onConnect == nil {
		return fmt.Errorf("no connection functions are set: %w", core.ErrInitialization)
	}
	l, err := ipc.Listen(meetingPoint(s.rep.Info().PCI(), s.name))
	switch {
	case errors.Is(err, ipc.ErrTaken):
		return fmt.Errorf("there is a server %q for %s already: %w", s.name, s.rep.Info().PCI(), core.ErrAlreadyExists)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("comch: %w", core.ErrNotSupported)
	case err != nil:
		return fmt.Errorf("%w: %w", core.ErrInitialization, err)
	}
	s.listener = l
	s.workers.Add(1)
	s.accepted = make(chan struct{})
	go (*Server)(s).accept(l)
	return nil
}

// stop lets nobody in any more, and gives the name back.
func (s *serverSide) stop() (done bool) {
	_ = s.listener.Close() // the name is free with the process at the latest
	<-s.accepted
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.guests {
		if c.phase() == phaseMaking {
			c.Abort()
		}
	}
	return len(s.conns)+len(s.arrived) == 0 && s.workers.Load() == 0
}

func (s *serverSide) ready() bool { return s.fresh.Load() || s.stopped() }

// stopped reports whether a stop is over.
func (s *serverSide) stopped() bool {
	return s.stopping && len(s.conns) == 0 && !s.fresh.Load() && s.workers.Load() == 0
}

// poll welcomes one client, or ends the stop.
func (s *serverSide) poll() bool {
	if s.fresh.Load() {
		return s.admit()
	}
	if s.stopped() {
		s.stopping = false
		s.Stopped()
		return true
	}
	return false
}

// admit serves a client that has come. One that comes while the server stops is
// told so, and the application is not bothered.
func (s *serverSide) admit() bool {
	s.mu.Lock()
	c := s.arrived[0]
	s.arrived = append(s.arrived[:0], s.arrived[1:]...)
	s.fresh.Store(len(s.arrived) > 0)
	s.mu.Unlock()
	s.add(c)
	c.known, c.closing = !s.stopping, s.stopping
	if c.known {
		s.Event(func() { s.onConnect(c, true) })
	}
	return true
}

// over reports the end of a connection.
func (s *serverSide) over(c *Connection) {
	(*Server)(s).strike(c)
	if c.known {
		s.Event(func() { s.onDisconnect(c, c.phase() == phaseEnded) })
	}
}
