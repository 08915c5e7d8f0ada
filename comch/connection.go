package comch

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/shmq"
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
	return [...]string{"being made", "established", "being closed", "closed", "lost"}[p]
}

// A socket carries set-up messages: see ipc.Conn.
type socket interface {
	TrySend(p []byte, fds ...int) error
	Recv(p []byte) (n int, fds []int, err error)
	SetDeadline(t time.Time) error
	Close() error
}

// A Connection is a server and a client that talk to each other.
//
// Its methods belong to the goroutine of the server's or client's engine, but
// for those that say otherwise. It remains valid when it is over.
type Connection struct {
	User  uint64 // the application's word; never touched here
	Value any    // the application's value; likewise

	owner      *control
	server     *Server // of a connection to a client
	client     *Client // of a connection to a server
	maxMessage int
	agreed     int // in the handshake; maxMessage from the moment it is served

	socket  socket
	cancel  func() // ends the dialling
	bell    *sys.Doorbell
	segment *sys.Pages
	seat    *seat // of the owner

	// Of the owner's engine.
	out       *shmq.Writer
	in        *shmq.Reader
	sends     sendQueue // submitted, in order
	unwritten *Send     // the first of these that is not in the peer's queue
	closing   bool      // to be ended by this side, once everything is written
	said      bool      // goodbye, by this side
	known     bool      // the application was told of it
	odd       bool      // whether a message or a completion has its turn
	now, last Counters

	// Of anybody.
	state    atomic.Uint32             // a phase
	remotes  atomic.Pointer[[]*remote] // consumers of the peer; never changed in place
	stirred  atomic.Bool               // news is not empty
	left     atomic.Bool               // the attendant is gone
	farewell sync.Once

	notices sync.Mutex // held while one is sent; guards mute
	mute    bool       // nothing may be sent any more

	mu       sync.Mutex // guards what follows
	seats    []*seat
	watchers map[*core.Engine]int // how many seats each has watch the doorbell
	numbers  [3]uint16            // identifier given last, by kind
	offers   map[uint16]*Consumer // that the peer was told of
	news     []consumerNews       // to be reported
	reason   error                // why it is over
	isCut    bool                 // the socket is closed, or will be when there is one
}

// Counters are what a connection has carried since it was made. Messages count
// when they are in the peer's queue, or delivered to the message function.
type Counters struct {
	SentMessages uint64 // to the peer
	SentBytes    uint64 // in these
	RecvMessages uint64 // from the peer
	RecvBytes    uint64 // in these
}

// Server returns the server of a connection to a client, else nil. Any
// goroutine.
func (c *Connection) Server() *Server { return c.server }

// Client returns the client of a connection to a server, else nil. Any
// goroutine.
func (c *Connection) Client() *Client { return c.client }

// MaxMessage returns how many bytes a message on this connection can have: the
// smaller of what both sides have set. Before the connection is established it
// is what this side has set.
func (c *Connection) MaxMessage() int { return c.maxMessage }

// UpdateInfo makes Counters show the present. It answers
// core.ErrConnectionProgress while the connection is being made, and
// core.ErrConnectionAborted when it is over; the counters are updated all the
// same.
func (c *Connection) UpdateInfo() error {
	if c == nil {
		return fmt.Errorf("comch: update the information: the connection is nil: %w", core.ErrInvalidValue)
	}
	c.last = c.now
	switch p := c.phase(); {
	case p == phaseMaking:
		return core.ErrConnectionProgress
	case p > phaseOpen:
		return core.ErrConnectionAborted
	}
	return nil
}

// Counters returns the counters as of the last UpdateInfo.
func (c *Connection) Counters() Counters { return c.last }

// Err returns why the connection is over, if this side did not end it: an error
// with core.ErrConnectionReset when the peer ended it or died, and with
// core.ErrConnectionAborted when it was given up, because of [Connection.Abort]
// or because the peer broke the protocol. Any goroutine.
func (c *Connection) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason
}

// Abort ends the connection at once, as if the peer had died: what waits to be
// sent fails, and does not hold up a stop any more. It is for a peer that does
// not receive. Any goroutine.
func (c *Connection) Abort() {
	c.drop(fmt.Errorf("comch: aborted: %w", core.ErrConnectionAborted))
}

func (c *Connection) phase() phase { return phase(c.state.Load()) }

// gone reports whether the connection is over or about to be: nothing of the
// peer may be used any more, and tasks fail with core.ErrConnectionReset. One
// load; any goroutine.
func (c *Connection) gone() bool { return c.phase() > phaseOpen }

// over reports whether the peer, too, does not use anything of this side any
// more: receive memory is the application's again. One load; any goroutine.
func (c *Connection) over() bool { return c.phase() >= phaseEnded }

// advance moves the connection on to phase p, and reports false if it was
// there or further already. It wakes everyone at the connection.
func (c *Connection) advance(p phase, reason error) bool {
	c.mu.Lock()
	if c.phase() >= p {
		c.mu.Unlock()
		return false
	}
	if c.reason == nil && (p != phaseEnded || c.phase() != phaseClosing) {
		c.reason = reason // and not when the peer only answers
	}
	c.state.Store(uint32(p))
	c.mu.Unlock()
	c.wake(nil)
	return true
}

// drop gives the connection up, as if the peer had died. Any goroutine.
func (c *Connection) drop(reason error) {
	if c.advance(phaseDead, reason) {
		c.cut()
	}
}

// cut closes the socket, which ends the handshake or the attendant.
func (c *Connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	if c.socket != nil {
		_ = c.socket.Close()
	}
	if c.cancel != nil {
		c.cancel()
	}
}

// release gives the memory and the doorbell back, once nobody is left who could
// use them.
func (c *Connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seats) > 0 || !c.left.Load() {
		return
	}
	if c.bell != nil {
		_ = c.bell.Close()
	}
	if c.segment != nil {
		_ = c.segment.Free()
	}
	c.bell, c.segment = nil, nil
}

func newConnection(k *control) *Connection {
	return &Connection{owner: k, offers: map[uint16]*Consumer{}, watchers: map[*core.Engine]int{}}
}
