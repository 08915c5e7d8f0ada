package perf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
)

// Client and server talk over TCP, in JSON, one message a line:
//
//	client                         server
//	test: all parameters     ->          opens its device
//	                         <-   hello  memory and queue pairs
//	hello                    ->          connects
//	ready                    ->          with datagrams and the connection manager
//	                         <-   ready
//	begin: n messages        ->
//	                         <-   begun
//	finish                   ->          when its part is done, and verified
//	                         <-   finished
//	... begin ...
//	... test ...
//	end: the results         ->
//
// Instead of each answer there can be an error.

// exchangeVersion changes with every change of a message.
const exchangeVersion = 4

// exchangeName is in every message, to tell a Gantry from something else.
const exchangeName = "gantry-perf"

// The kinds of messages.
const (
	kindTest     = "test"
	kindHello    = "hello"
	kindReady    = "ready"
	kindBegin    = "begin"
	kindBegun    = "begun"
	kindFinish   = "finish"
	kindFinished = "finished"
	kindEnd      = "end"
	kindError    = "error"
)

// An rcMessage is one message. What it holds depends on its kind.
type rcMessage struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Kind    string `json:"kind"`

	Test     *RCTest   `json:"test,omitempty"`
	Hello    *rcHello  `json:"hello,omitempty"`
	N        int       `json:"n,omitempty"`    // begin: messages of each queue pair
	Each     bool      `json:"each,omitempty"` // begin: verify each of them
	Verified uint64    `json:"verified,omitempty"`
	Traffic  traffic   `json:"traffic"`
	Arrival  arrival   `json:"arrival"` // finished: over UC and UD
	Points   []RCPoint `json:"points,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// The limits of the exchange. 16384 queue pairs take 600 KB.
const (
	longestMessage = 1 << 20
	answerTime     = 10 * time.Second // until an answer to what takes no time
)

// An exchange is one end of the TCP connection. A goroutine reads it until it
// is closed.
type exchange struct {
	conn  net.Conn
	drive func() bool    // or nil: see await
	in    chan rcMessage // closed when there is no more
	why   error          // it was closed; to be read after that
	alive context.Context
	end   context.CancelCauseFunc
	over  sync.WaitGroup
}

func newExchange(ctx context.Context, conn net.Conn) *exchange {
	x := &exchange{conn: conn, in: make(chan rcMessage)}
	x.alive, x.end = context.WithCancelCause(ctx)
	x.over.Go(x.read)
	return x
}

// close ends the exchange and waits for its goroutine.
func (x *exchange) close() {
	x.end(nil)
	_ = x.conn.Close() // also a second time
	x.over.Wait()
}

func (x *exchange) read() {
	defer func() { close(x.in); x.end(x.ended()) }()
	s := bufio.NewScanner(x.conn)
	s.Buffer(nil, longestMessage)
	for s.Scan() {
		m, err := parseMessage(s.Bytes())
		if err != nil {
			x.why = err
			return
		}
		select {
		case x.in <- m:
		case <-x.alive.Done():
			x.why = context.Cause(x.alive)
			return
		}
	}
	switch x.why = s.Err(); {
	case x.why == nil:
		x.why = io.EOF
	case errors.Is(x.why, bufio.ErrTooLong):
		x.why = fmt.Errorf("it sends a line of more than %d bytes, and no message of gantry perf: %w", longestMessage, ErrRCPeer)
	}
}

// parseMessage reads one line, strictly.
func parseMessage(line []byte) (m rcMessage, err error) {
	var head struct {
		Name    string `json:"name"`
		Version int    `json:"version"`
	}
	if json.Unmarshal(line, &head) != nil || head.Name != exchangeName {
		return m, fmt.Errorf("it says %.40q, which is not gantry perf: run gantry perf at both ends: %w", line, ErrRCPeer)
	}
	if head.Version != exchangeVersion {
		return m, fmt.Errorf("it speaks version %d of the exchange, and this one %d: run the same version of gantry at both ends: %w",
			head.Version, exchangeVersion, ErrRCPeer)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("its message cannot be understood (%w): %w", err, ErrRCPeer)
	}
	return m, nil
}

// send writes one message.
func (x *exchange) send(m rcMessage) error {
	m.Name, m.Version = exchangeName, exchangeVersion
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_ = x.conn.SetWriteDeadline(time.Now().Add(answerTime)) // a failure shows in the write
	if _, err = x.conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("send %s: %w", m.Kind, err)
	}
	return nil
}

// expect waits for a message of one kind.
func (x *exchange) expect(ctx context.Context, kind string, limit time.Duration) (m rcMessage, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	m, ok, err := x.await(ctx, timer.C)
	switch {
	case errors.Is(err, errLate):
		return m, fmt.Errorf("no answer for %v; is gantry perf --listen at the other end? %w", limit, ErrRCPeer)
	case err != nil:
		return m, err
	}
	return x.check(m, ok, kind)
}

// await waits for a message; not ok: there are no more. What the other
// end has sent on the wire may need an answer meanwhile, and a device on an inline
// executor has nobody else who gives it: the answer that it gave may be lost.
func (x *exchange) await(ctx context.Context, late <-chan time.Time) (m rcMessage, ok bool, err error) {
	var turn <-chan struct{} // is always ready if the device is to be driven, and never if not
	if x.drive != nil {
		turn = always
	}
	for {
		select {
		case m, ok = <-x.in:
			return m, ok, nil
		case <-late:
			return m, false, errLate
		case <-ctx.Done():
			return m, false, context.Cause(ctx)
		case <-turn:
			if !x.drive() {
				notify.Nap(spinNap)
			}
		}
	}
}

// always is closed.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// errLate says that nothing came in time.
var errLate = errors.New("nothing came in time")

// drives has whoever waits for a message drive the device of a test, if nobody
// else does.
func (x *exchange) drives(t *RCTest, p *rcPort) {
	x.drive = nil
	if t.Executor == "inline" {
		x.drive = func() bool { return p.dev.Drive(0) }
	}
}

// check wants a message to be of one kind.
func (x *exchange) check(m rcMessage, ok bool, kind string) (rcMessage, error) {
	switch {
	case !ok:
		return m, x.ended()
	case m.Kind == kindError:
		return m, fmt.Errorf("the other end: %s", m.Error)
	case m.Kind != kind:
		return m, fmt.Errorf("it says %q, want %q: %w", m.Kind, kind, ErrRCPeer)
	}
	return m, nil
}

// ended says why there are no more messages.
func (x *exchange) ended() error {
	if errors.Is(x.why, ErrRCPeer) {
		return x.why
	}
	return fmt.Errorf("the other end went away (%w)", x.why)
}
