package rping

import (
	"io"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// What the original does without being asked, and what there can be.
const (
	Port        = 7174
	DefaultSize = 64
	MinSize     = 16 // the name of the ping, a letter or two, and the zero
	MaxSize     = 64 << 10
)

// A Test says what an end does.
type Test struct {
	Size    int           // bytes of a text, of a client: a server has room for each size
	Count   int           // pings of a client; 0: until its context ends
	Check   bool          // compare the texts
	Many    bool          // a server goes on after a client, and takes several at a time
	Limit   time.Duration // without anything happening, after which a connection is given up
	Capture io.Writer     // gets the packets as pcapng, or nil
	Faults  link.Faults   // what happens to packets that are sent

	// Ping is told each text that has arrived, without its zero. Ended is told
	// of each client of a server that is gone: how far it came, and what was
	// wrong, if anything. Step is told what an end does, as the original does
	// when it is debugged. Any of them may be nil. With Many they are called by
	// several goroutines at a time, and Ping is in the way of its connection.
	Ping  func(text []byte)
	Ended func(client netip.AddrPort, r Result, err error)
	Step  func(what string)
}

// NewTest returns what the original does without flags.
func NewTest() Test { return Test{Size: DefaultSize, Limit: 10 * time.Second} }

// Verify says what is wrong with the parameters, before anything is opened.
func (t *Test) Verify() error {
	switch {
	case t.Size < MinSize || t.Size > MaxSize:
		return rendezvous.Errorf(rendezvous.ErrParameter, "size %d: %d to %d are possible", t.Size, MinSize, MaxSize)
	case t.Count < 0:
		return rendezvous.Errorf(rendezvous.ErrParameter, "count %d: choose 1 or more, or 0 for no end", t.Count)
	case t.Limit <= 0:
		return rendezvous.Errorf(rendezvous.ErrParameter, "timeout %v: there must be some time to wait", t.Limit)
	}
	return nil
}

// A Result is what became of a connection, or of all those of a server.
type Result struct {
	Count    int     `json:"count"`    // pings that came to their end
	Size     int     `json:"size"`     // bytes of the largest text
	Verified bool    `json:"verified"` // each text was compared, and there was one
	Seconds  float64 `json:"seconds"`  // from the first ping to the end
}

func (t *Test) step(what string) {
	if t.Step != nil {
		t.Step(what)
	}
}
