package comch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/ipc"
)

// attend is the attendant of an established connection: the goroutine that
// reads the socket. It takes set-up messages at once, whatever the engine of
// the owner is doing, and sees when the peer dies. It changes only what is
// guarded, and wakes those who are concerned. It ends with the connection.
func (c *Connection) attend() {
	var b [noticeLen]byte
	for {
		n, fds, err := c.socket.Recv(b[:])
		if err != nil {
			c.lost(err)
			break
		}
		m, ok := parseNotice(b[:n], len(fds))
		if !ok {
			ipc.CloseAll(fds)
			c.broke("a set-up message that is none")
			break
		}
		if !c.heed(m, fds) {
			break
		}
	}
	c.retireAll()
	_ = c.socket.Close()
	c.left.Store(true)
	c.wake(nil)
}

// lost says why the socket has ended.
func (c *Connection) lost(err error) {
	if errors.Is(err, io.EOF) {
		c.advance(phaseDead, fmt.Errorf("comch: the peer died: %w", core.ErrConnectionReset))
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.advance(phaseDead, fmt.Errorf("comch: the peer has not answered the goodbye for %v: does it stand still? %w", c.owner.answerTime, core.ErrConnectionAborted))
		return
	}
	c.advance(phaseDead, fmt.Errorf("comch: %w: %w", core.ErrConnectionAborted, err))
}

// broke gives up a connection whose peer broke the protocol.
func (c *Connection) broke(format string, args ...any) {
	c.drop(fmt.Errorf("comch: the peer broke the protocol: %s: %w", fmt.Sprintf(format, args...), core.ErrConnectionAborted))
}

// heed does what a notice asks for, and reports false when it was the last.
func (c *Connection) heed(m notice, fds []int) (more bool) {
	switch m.kind {
	case noticeNew:
		return c.admit(m.offer, fds)
	case noticeGone:
		return c.dismiss(m.id)
	case noticeAck, noticeNak:
		return c.answered(m, func(k *Consumer) { k.acknowledged(m.kind == noticeAck) })
	case noticeLeft:
		return c.answered(m, (*Consumer).withdrawn)
	default: // noticeBye
		// The peer does not use anything of this side any more. Before this
		// side says the same, its producers have to let go.
		c.advance(phaseEnded, fmt.Errorf("comch: the peer closed the connection: %w", core.ErrConnectionReset))
		c.bye()
		return false
	}
}

// bye says goodbye to the peer, once. When it returns, no producer here touches
// memory of the peer any more, and nothing more is sent on the socket.
func (c *Connection) bye() {
	c.farewell.Do(func() {
		c.advance(phaseClosing, nil)
		c.retireAll()
		_ = c.tell(&notice{kind: noticeBye})
		_ = c.socket.SetDeadline(time.Now().Add(c.owner.answerTime)) // for the answer
	})
}

// tell sends a notice, without waiting: a peer that lets its socket fill up is
// as good as dead.
func (c *Connection) tell(n *notice, fds ...int) error {
	c.notices.Lock()
	defer c.notices.Unlock()
	if c.mute {
		return core.ErrConnectionReset
	}
	c.mute = n.kind == noticeBye
	b := n.encode()
	if err := c.socket.TrySend(b[:], fds...); err != nil {
		c.mute = true
		c.drop(fmt.Errorf("comch: tell the peer: %w: %w", core.ErrConnectionReset, err))
		return core.ErrConnectionReset
	}
	return nil
}
