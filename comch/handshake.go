package comch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// The handshake on the socket of a new connection, before the notices:
//
//	client                                          server
//	   │ HELLO version, longest message, queue  ───▶ │
//	   │                                             │ makes the segment and the doorbell
//	   │ ◀───  HELLO the same, what counts for both, │
//	   │       segment and doorbell                  │
//	   │ maps and checks them                        │
//	   │ HELLO as above                         ───▶ │ event "connected"
//
// The second HELLO may say instead, with a code, why the client is refused.
const (
	helloMagic   = 0x686d6f632d746e67 // "gnt-comh"
	helloVersion = 1
	helloLen     = 32
)

// answerTime is how long a peer may take for the handshake, and for the answer
// to a goodbye.
const answerTime = 5 * time.Second

// A hello is a message of the handshake:
//
//	 0         8         12      14      16        20        24        32
//	┌─────────┬─────────┬───────┬───────┬─────────┬─────────┬─────────┐
//	│ magic   │ version │ code  │   0   │ message │ queue   │    0    │
//	└─────────┴─────────┴───────┴───────┴─────────┴─────────┴─────────┘
//
// Numbers are little-endian. Magic, version and code stay where they are in
// all versions.
type hello struct {
	version uint32
	code    core.Status // why the client is refused
	message uint32      // the longest message in bytes
	queue   uint32      // the most messages that wait for the sender of this
}

func (h hello) encode() []byte {
	b := make([]byte, helloLen)
	binary.LittleEndian.PutUint64(b, helloMagic)
	binary.LittleEndian.PutUint32(b[8:], h.version)
	binary.LittleEndian.PutUint16(b[12:], uint16(h.code))
	binary.LittleEndian.PutUint32(b[16:], h.message)
	binary.LittleEndian.PutUint32(b[20:], h.queue)
	return b
}

// parseHello returns what a peer said. One who refuses or speaks another version
// is an error too, and then the rest of what it said is left out: it may be
// somewhere else in that version.
func parseHello(b []byte) (hello, error) {
	if len(b) < 16 || binary.LittleEndian.Uint64(b) != helloMagic {
		return hello{}, fmt.Errorf("the peer does not speak Comch: %w", core.ErrConnectionAborted)
	}
	h := hello{
		version: binary.LittleEndian.Uint32(b[8:]),
		code:    core.Status(min(binary.LittleEndian.Uint16(b[12:]), 0xff)),
	}
	switch {
	case h.code != core.Success:
		return h, fmt.Errorf("the server refused the connection: %w", h.code)
	case h.version != helloVersion:
		return h, fmt.Errorf("the peer speaks version %d, this is version %d: %w", h.version, helloVersion, core.ErrUnsupportedVersion)
	case len(b) != helloLen:
		return h, fmt.Errorf("a greeting of %d bytes: %w", len(b), core.ErrConnectionAborted)
	}
	h.message = binary.LittleEndian.Uint32(b[16:])
	h.queue = binary.LittleEndian.Uint32(b[20:])
	if h.message < 1 || h.message > maxMessage || h.queue < 1 || h.queue > maxRecvQueue {
		return h, fmt.Errorf("a greeting with messages of %d bytes and a queue of %d: %w", h.message, h.queue, core.ErrConnectionAborted)
	}
	return h, nil
}

// streamLimits are those of the stream to a receiver with a queue of so many
// messages.
func streamLimits(message, queue int) shmq.StreamLimits {
	bytes := min(queue*(message+16), streamBytes)
	return shmq.StreamLimits{Message: message, Messages: queue, Bytes: max(bytes, 2*(message+16))}
}

// A layout says where the two streams are in the segment.
type layout struct{ toServer, toClient shmq.StreamLimits }

func newLayout(message, serverQueue, clientQueue int) layout {
	return layout{streamLimits(message, serverQueue), streamLimits(message, clientQueue)}
}

// second is where the stream to the client begins.
func (l layout) second() int { return (l.toServer.Size() + 4095) &^ 4095 }

func (l layout) size() int { return l.second() + l.toClient.Size() }

// lay puts the streams into the segment.
func (c *Connection) lay(l layout, message int) (err error) {
	toServer, toClient := c.segment.Bytes()[:l.second()], c.segment.Bytes()[l.second():]
	if c.client != nil {
		c.out, err = shmq.NewWriter(toServer, l.toServer)
		if err == nil {
			c.in, err = shmq.NewReader(toClient, l.toClient)
		}
	} else {
		c.out, err = shmq.NewWriter(toClient, l.toClient)
		if err == nil {
			c.in, err = shmq.NewReader(toServer, l.toServer)
		}
	}
	c.agreed = message
	return err
}

// greet is the handshake of a server.
func (c *Connection) greet(s socket) error {
	h, err := hear(s)
	if errors.Is(err, core.ErrUnsupportedVersion) {
		_ = s.TrySend(hello{version: helloVersion, code: core.ErrUnsupportedVersion}.encode())
	}
	if err != nil {
		return err
	}
	k := c.owner
	message := min(k.maxMessage, int(h.message))
	l := newLayout(message, k.recvQueue, int(h.queue))
	theirs, err := c.furnish(l)
	if err != nil {
		_ = s.TrySend(hello{version: helloVersion, code: core.ErrNoMemory}.encode())
		return err
	}
	mine := hello{version: helloVersion, message: uint32(message), queue: uint32(k.recvQueue)}
	err = s.TrySend(mine.encode(), c.segment.FD(), theirs.FD())
	_ = theirs.Close() // the client has its own by now, or never will
	if err != nil {
		return err
	}
	if err := c.lay(l, message); err != nil {
		return err
	}
	_, err = hear(s)
	return err
}

// furnish makes what both sides share. The doorbell's other end is the
// client's.
func (c *Connection) furnish(l layout) (theirs *sys.Doorbell, err error) {
	c.segment, err = sys.AllocPages(l.size(), sys.PagesOptions{Shareable: true})
	if err != nil {
		return nil, err
	}
	if err := c.segment.Seal(false); err != nil {
		return nil, err
	}
	c.bell, theirs, err = sys.NewDoorbell()
	return theirs, err
}

// introduce is the handshake of a client.
func (c *Connection) introduce(s socket) error {
	k := c.owner
	mine := hello{version: helloVersion, message: uint32(k.maxMessage), queue: uint32(k.recvQueue)}
	// A server that is full has closed the socket by now, and said why in it.
	if err := s.TrySend(mine.encode()); err != nil && !errors.Is(err, ipc.ErrGone) {
		return err
	}
	h, fds, err := hearWith(s, 2)
	if err != nil {
		return err
	}
	if int(h.message) > k.maxMessage {
		ipc.CloseAll(fds)
		return fmt.Errorf("messages of %d bytes, at most %d were asked for: %w", h.message, k.maxMessage, core.ErrConnectionAborted)
	}
	l := newLayout(int(h.message), int(h.queue), k.recvQueue)
	c.bell, err = sys.DoorbellFromFD(fds[1])
	if err != nil {
		ipc.CloseAll(fds[:1])
		return err
	}
	if c.segment, err = importWords(fds[0], l.size()); err != nil {
		return err
	}
	if err := c.lay(l, int(h.message)); err != nil {
		return err
	}
	return s.TrySend(mine.encode())
}

// hear waits for a greeting without descriptors.
func hear(s socket) (hello, error) {
	h, _, err := hearWith(s, 0)
	return h, err
}

// hearWith waits for a greeting with so many descriptors; a refusal has none.
func hearWith(s socket, want int) (h hello, fds []int, err error) {
	var b [64]byte
	n, fds, err := s.Recv(b[:])
	if err != nil {
		return hello{}, nil, err
	}
	h, err = parseHello(b[:n])
	if err == nil && len(fds) != want {
		err = fmt.Errorf("a greeting with %d descriptors, want %d: %w", len(fds), want, core.ErrConnectionAborted)
	}
	if err != nil {
		ipc.CloseAll(fds)
		return h, nil, err
	}
	return h, fds, nil
}

// shake does the handshake with f, in bounded time, and takes the seat of the
// owner. When it fails nothing is left of the connection.
func (c *Connection) shake(s socket, f func(socket) error) error {
	c.mu.Lock()
	c.socket = s
	cut := c.isCut
	c.mu.Unlock()
	err := error(core.ErrConnectionAborted)
	if !cut {
		_ = s.SetDeadline(time.Now().Add(c.owner.answerTime))
		err = f(s)
	}
	if err == nil {
		c.seat, err = c.join(&c.owner.Context, seatControl)
	}
	if err == nil {
		_ = s.SetDeadline(time.Time{})
		c.seat.begin()
		if c.advance(phaseOpen, nil) {
			return nil
		}
		c.seat.leave()
		c.seat = nil
		err = core.ErrConnectionAborted
	}
	_ = s.Close()
	c.left.Store(true)
	c.release()
	return err
}
