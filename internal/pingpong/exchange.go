package pingpong

import (
	"strings"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// An Exchange is one end of what is said over TCP before the first message:
//
//	client                 server
//	its Dest      ->
//	              <-       its Dest, when its queue pair is ready to receive
//	"done\0"      ->       starts to wait for messages
//
// The originals read each of these with a single call, so each has to be
// written with one.
//
// It does no I/O: what Out returns is to be sent, and what arrives is given to
// In, which never takes more than belongs to the exchange.
type Exchange struct {
	step exchangeStep
	out  []byte
	in   [DestLen]byte
	n    int // bytes in it
	peer Dest
}

type exchangeStep uint8

const (
	clientAwaitsDest exchangeStep = iota
	serverAwaitsDest
	serverAwaitsAnswer // of its own program
	serverAwaitsDone
	exchangeOver
)

// doneWord ends the exchange.
const doneWord = "done\x00"

// NewClientExchange begins the exchange of a client whose queue pair is local.
func NewClientExchange(local Dest) *Exchange {
	return &Exchange{step: clientAwaitsDest, out: local.Append(nil)}
}

// NewServerExchange begins the exchange of a server.
func NewServerExchange() *Exchange { return &Exchange{step: serverAwaitsDest} }

// Peer returns what the other end has said of itself, once it has.
func (x *Exchange) Peer() (d Dest, known bool) {
	return x.peer, x.step != clientAwaitsDest && x.step != serverAwaitsDest
}

// Answer tells a server's Exchange where its queue pair is. It counts once, and
// only when the other end is known.
func (x *Exchange) Answer(local Dest) {
	if x.step == serverAwaitsAnswer {
		x.step, x.out = serverAwaitsDone, local.Append(nil)
	}
}

// Over reports whether nothing more is to come. There may be something to send.
func (x *Exchange) Over() bool { return x.step == exchangeOver }

// Out returns what is to be sent in one piece, or nothing. It returns it once.
func (x *Exchange) Out() []byte {
	out := x.out
	x.out = nil
	return out
}

// Want returns how many bytes In would take now.
func (x *Exchange) Want() int { return len(x.shape()) - x.n }

// shape is what has to come next.
func (x *Exchange) shape() string {
	switch x.step {
	case clientAwaitsDest, serverAwaitsDest:
		return destShape
	case serverAwaitsDone:
		return doneWord
	case serverAwaitsAnswer, exchangeOver:
	}
	return ""
}

// In takes what has arrived, or the first Want bytes of it, and returns how
// much it took. The error is that of the first byte that is wrong, however few
// have come, so that a peer which speaks another language is found out at once.
func (x *Exchange) In(b []byte) (taken int, err error) {
	shape := x.shape()
	taken = copy(x.in[x.n:len(shape)], b)
	x.n += taken
	got := x.in[:x.n]
	if at := misfit(shape, got); at < x.n {
		return taken, rendezvous.Errorf(rendezvous.ErrPeer, "it says %q, and byte %d is wrong, so it is no program of this kind", got, at)
	}
	if x.n < len(shape) || taken == 0 {
		return taken, nil
	}
	x.n = 0
	switch x.step {
	case clientAwaitsDest:
		x.peer, err = ParseDest(got)
		x.step, x.out = exchangeOver, []byte(doneWord)
	case serverAwaitsDest:
		x.peer, err = ParseDest(got)
		x.step = serverAwaitsAnswer
	case serverAwaitsDone:
		x.step = exchangeOver
	case serverAwaitsAnswer, exchangeOver:
	}
	return taken, err
}

// Closed tells that the other end has closed the connection. It returns nil
// where that is no loss: some programs leave out the zero byte after "done".
func (x *Exchange) Closed() error {
	switch x.step {
	case clientAwaitsDest:
		return rendezvous.Errorf(rendezvous.ErrPeer, "it closed the TCP connection before it said where it is; what it printed says why: its network may "+
			"not carry the MTU, or its GID be of another IP version than this end's")
	case serverAwaitsDest:
		return rendezvous.Errorf(rendezvous.ErrPeer, "it closed the TCP connection after %d of %d bytes; what it printed says why", x.n, DestLen)
	case serverAwaitsDone:
		if string(x.in[:x.n]) == strings.TrimSuffix(doneWord, "\x00") {
			x.step = exchangeOver
			return nil
		}
		return rendezvous.Errorf(rendezvous.ErrPeer, "it closed the TCP connection before it said that it is done; what it printed says why")
	case serverAwaitsAnswer, exchangeOver:
	}
	return nil
}
