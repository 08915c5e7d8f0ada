package comch

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/sys"
)

// A phase is where a connection is in its life. It only ever grows.
type phase uint32

const (
	phaseMaking  phase = iota // the handshake is under way
	phaseOpen                 // established
	phaseClosing              // this side has said goodbye, or is about to
	phaseEnded                // the peer has said goodbye
	phaseDead                 // the peer is gone without a word, or was dropped
)

// String returns the name of the phase.
func (p phase) String() string {
	switch p {
	case phaseMaking:
		return "being made"
	case phaseOpen:
		return "established"
	case phaseClosing, phaseEnded:
		return "closed"
	case phaseDead:
		return "lost"
	}
	return "in phase " + strconv.Itoa(int(p))
}

// A doorbell is one end of what both sides ring: see sys.Doorbell.
type doorbell interface {
	FD() int
	Ring() error
	Drain() (n int, gone bool)
	Close() error
}

// A socket carries set-up messages: see ipc.Conn.
type socket interface {
	Send(p []byte, fds ...int) error
	Recv(p []byte) (n int, fds []int, err error)
	SetDeadline(t time.Time) error
	Close() error
}

// A Connection is a server and a client that talk to each other.
//
// Its methods belong to the goroutine of the server's or client's engine, but
// for those that say otherwise.
type Connection struct {
	User  uint64 // the application's word; never touched here
	Value any    // the application's value; likewise

	socket  socket
	bell    doorbell
	segment *sys.Pages

	state   atomic.Uint32           // a phase
	remotes atomic.Pointer[[]*remote] // the peer's consumers, by identifier; never changed in place

	mu     sync.Mutex // guards what follows
	seats  []*seat
	last   [3]uint16 // identifier given last, by kind
	reason error     // why it is over
	offers map[uint16]*Consumer // own consumers that the peer was told of
}

func (c *Connection) phase() phase { return phase(c.state.Load()) }

// gone reports whether the connection is over or about to be: nothing of the
// peer may be used any more, and tasks fail with core.ErrConnectionReset. One
// load; any goroutine.
func (c *Connection) gone() bool { return c.phase() > phaseOpen }

// advance moves the connection on to phase p, and reports false if it was
// there or further already. It wakes everyone at the connection.
func (c *Connection) advance(p phase, reason error) bool {
	c.mu.Lock()
	if c.phase() >= p {
		c.mu.Unlock()
		return false
	}
	if c.reason == nil {
		c.reason = reason
	}
	c.state.Store(uint32(p))
	c.mu.Unlock()
	c.wake(nil)
	return true
}

// drop ends the connection because the peer broke the protocol, as if it had
// died. Any goroutine.
func (c *Connection) drop(reason error) {
	if c.advance(phaseDead, reason) {
		_ = c.socket.Close()
	}
}

// release gives the connection's resources back once nobody is left.
func (c *Connection) release() {}
