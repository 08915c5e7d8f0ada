package comch

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/ipc"
)

// meetingPoint returns the name under which a server is found.
func meetingPoint(host device.Address, name string) string {
	return fmt.Sprintf("comch %s %s", host, name)
}

// accept is the goroutine that takes connections for a started server, until
// its name is given back. A client that dawdles in the handshake keeps only its
// own goroutine busy.
func (s *Server) accept(l *ipc.Listener) {
	defer close(s.accepted)
	defer s.leave()
	for {
		conn, err := l.Accept()
		if err != nil {
			return // the listener is closed
		}
		c := newConnection(&s.control)
		c.server = s
		if !s.book(c) {
			s.rejected.Add(1)
			_ = conn.TrySend(hello{version: helloVersion, code: core.ErrFull}.encode())
			_ = conn.Close()
			continue
		}
		s.workers.Add(1)
		go s.serve(c, conn)
	}
}

// book notes a client that is about to come in, if there is a place for it.
func (s *Server) book(c *Connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.guests) >= maxClients {
		return false
	}
	s.guests[c] = true
	return true
}

// serve does the handshake with a client, and then is the attendant of the
// connection. A client that came in keeps its place until the engine is through
// with it, however soon it has gone: who comes and goes all the time must not
// pile up connections that the engine has not seen.
func (s *Server) serve(c *Connection, conn *ipc.Conn) {
	defer s.leave()
	if err := c.shake(conn, c.greet); err != nil {
		s.rejected.Add(1)
		s.strike(c)
		return
	}
	s.mu.Lock()
	s.arrived = append(s.arrived, c)
	s.fresh.Store(true)
	s.mu.Unlock()
	s.Notify()
	c.attend()
}

// strike undoes book.
func (s *Server) strike(c *Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, c)
}
