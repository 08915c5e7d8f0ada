// Package datapath is what the two comch_data_path_high_speed samples share: the
// words of the control path, one message out through a producer, and one message
// in through a consumer.
package datapath

import (
	"bytes"
	"flag"
	"fmt"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
)

// What both processes know.
const (
	ServiceName = "comch_data_path_sample_server"
	StartText   = "start_data_path_test" // the client sends it, and the server sends it back
	StopText    = "stop_data_path_test"  // likewise

	SendTasks = 1024    // of the control path
	RecvQueue = 10      // messages of the control path
	Longest   = 1 << 20 // bytes of a message of the data path
)

// A Path is one process's end of the data path.
type Path struct {
	*stage.Stage
	Control *core.Engine // drives the server or client, and the consumer
	Peer    string       // what the other process is: "server" or "client"

	Conn *comch.Connection // nil until the processes have met
	Lost error             // why they have parted; nil until then

	text     string
	size     int
	consumer uint16 // of the other process; 0 while it has none
}

// Flags declares what is sent.
func (p *Path) Flags(fs *flag.FlagSet, text string) {
	fs.StringVar(&p.text, "text", text, "the `text` that the other process gets on the data path")
	fs.StringVar(&p.text, "t", text, "same as -text")
	fs.IntVar(&p.size, "size", 0, "send so many `bytes`: the text, over and over; 0 sends it once")
}

// Check says what is wrong with that.
func (p *Path) Check() error {
	switch {
	case p.text == "":
		return fmt.Errorf("-text: there is nothing to send")
	case p.size < 0 || p.size > Longest:
		return fmt.Errorf("-size %d: want 0 to %d", p.size, Longest)
	case len(p.text) > Longest:
		return fmt.Errorf("-text: it has %d bytes, %d can be sent", len(p.text), Longest)
	}
	return nil
}

// message returns what is sent.
func (p *Path) message() []byte {
	if p.size == 0 {
		return []byte(p.text)
	}
	return bytes.Repeat([]byte(p.text), p.size/len(p.text)+1)[:p.size]
}

// Configure prepares a server or client: the callbacks for its sends, the
// length of its queue, and those that are told of consumers.
func (p *Path) Configure(c interface {
	ConfigureSend(ok, fail func(*comch.Send), n int) error
	SetRecvQueue(n int) error
	SetConsumerFuncs(started, expired func(*comch.Connection, uint16)) error
}) error {
	if err := c.ConfigureSend(p.sent, p.notSent, SendTasks); err != nil {
		return err
	}
	if err := c.SetRecvQueue(RecvQueue); err != nil {
		return err
	}
	return c.SetConsumerFuncs(
		func(n *comch.Connection, id uint16) {
			if n == p.Conn { // consumers of a second client have numbers too
				p.consumer = id
			}
		},
		func(n *comch.Connection, id uint16) {
			if n == p.Conn && id == p.consumer {
				p.consumer = 0
			}
		})
}

// sent is the callback of a control message.
func (p *Path) sent(t *comch.Send) {
	p.Completed++
	p.Say("sent %q", t.Message())
	p.Keep(t.Free())
}

// notSent says nothing of the end of the connection: who waits for the other
// process knows more.
func (p *Path) notSent(t *comch.Send) {
	p.Failed++
	if t.Status() != core.ErrConnectionReset {
		p.Keep(fmt.Errorf("send %q: %w", t.Message(), t.Status()))
	}
	p.Keep(t.Free())
}

// Tell submits a control message, with the AllocSend of the server or client.
func (p *Path) Tell(alloc func(*comch.Connection, []byte) (*comch.Send, error), text string) {
	t, err := alloc(p.Conn, []byte(text))
	if err != nil {
		p.Keep(err)
		return
	}
	p.Tasks++
	p.Keep(t.Submit())
}

// Part notes that the other process has left.
func (p *Path) Part() { p.Lost = p.left() }

// left says that the other process has left, and why as far as that is known.
func (p *Path) left() error {
	why := core.ErrConnectionReset.Err()
	if p.Conn != nil && p.Conn.Err() != nil {
		why = p.Conn.Err()
	}
	return fmt.Errorf("the %s left before the end of the test: %w", p.Peer, why)
}

// explain replaces an error that only follows from the end of the connection:
// whichever call met the end first, the reason reads the same.
func (p *Path) explain(err error) error {
	switch core.StatusOf(err) {
	case core.ErrConnectionReset, core.ErrBadState:
		if p.Conn.Err() != nil {
			return p.left()
		}
	}
	return err
}
