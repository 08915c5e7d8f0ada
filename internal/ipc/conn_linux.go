package ipc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// A Conn is a connection for messages. Its methods may be called from any
// goroutine; messages that several send do not mix.
type Conn struct {
	u *net.UnixConn
}

// Dial connects to the one who listens on a name. It is ErrNobody when there is
// no such process, and ErrStranger when it is another user's. Waiting for room
// in the queue of the listener ends with ctx.
func Dial(ctx context.Context, name string) (*Conn, error) {
	d, err := openDirectory()
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	defer d.close()
	u, err := d.dial(ctx, fileName(name)+socketSuffix)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", name, err)
	}
	if !ofThisUser(u) {
		_ = u.Close()
		return nil, fmt.Errorf("dial %q: %w", name, ErrStranger)
	}
	return &Conn{u: u}, nil
}

func (d *directory) dial(ctx context.Context, file string) (*net.UnixConn, error) {
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, network, d.address(file))
		switch {
		case err == nil:
			return c.(*net.UnixConn), nil
		case errors.Is(err, unix.EAGAIN): // the queue of the listener is full
			if ended := pause(ctx); ended != nil {
				return nil, fmt.Errorf("the listener does not answer: %w", ended)
			}
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
			return nil, ErrNobody
		default:
			return nil, err
		}
	}
}

// Send sends one message with at least one byte, and descriptors, which stay
// the caller's. It waits for room, until the deadline. It is ErrMessage above
// MaxMessage and MaxFDs, and ErrGone when the peer is.
func (c *Conn) Send(p []byte, fds ...int) error {
	rights, err := parcel(p, fds)
	if err != nil {
		return err
	}
	_, _, err = c.u.WriteMsgUnix(p, rights, nil)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return fmt.Errorf("send: %w", ErrGone)
	}
	return err
}

// parcel checks the limits of a message, and packs its descriptors.
func parcel(p []byte, fds []int) (rights []byte, err error) {
	if len(p) == 0 || len(p) > MaxMessage || len(fds) > MaxFDs {
		return nil, fmt.Errorf("send %d bytes and %d descriptors: %w", len(p), len(fds), ErrMessage)
	}
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return rights, nil
}

// Recv waits for a message, until the deadline, and puts it into p. The
// descriptors are the caller's from then on, and are not inherited by programs
// that are started. A message that does not fit is ErrMessage, and its
// descriptors are closed.
//
// It is io.EOF when the peer closed the connection or died, after all that was
// sent before.
func (c *Conn) Recv(p []byte) (n int, fds []int, err error) {
	// One element more than MaxFDs does not fit, and the kernel says so.
	rights := make([]byte, unix.CmsgSpace(4*MaxFDs))
	n, oobn, flags, _, err := c.u.ReadMsgUnix(p, rights)
	if errors.Is(err, unix.ECONNRESET) {
		// The peer left something unread. It is reported once, before what
		// the peer sent.
		n, oobn, flags, _, err = c.u.ReadMsgUnix(p, rights)
	}
	fds = descriptors(rights[:oobn])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = fmt.Errorf("receive: %w", ErrMessage)
	}
	if err == nil {
		return n, fds, nil
	}
	CloseAll(fds)
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		err = io.EOF
	}
	return 0, nil, err
}

// descriptors returns what came with a message.
func descriptors(rights []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil // the kernel wrote it, and it is well formed
	}
	for _, m := range messages {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// CloseAll closes descriptors that came with a message and are not wanted.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// SetDeadline ends Send and Recv that wait at t, and later ones too; the error
// is os.ErrDeadlineExceeded. The zero Time is no deadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.u.SetDeadline(t) }

// Close closes the connection, and ends Send and Recv that wait: theirs is
// net.ErrClosed. The peer still gets what was sent.
func (c *Conn) Close() error { return c.u.Close() }
