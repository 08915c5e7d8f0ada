package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/roce"
)

// A Wire moves the UDP payloads of a script: from BTH to ICRC, both included.
// It is used by one goroutine.
type Wire interface {
	// Send sends b from one of this machine's addresses.
	Send(from, to netip.Addr, b []byte) error

	// Recv waits until the deadline for the next payload. It is not ok when
	// none came; a deadline that is over asks for what is there.
	Recv(ctx context.Context, deadline time.Time) (a Arrival, ok bool, err error)

	// Now is the time.
	Now() time.Time

	// Sleep lets time pass.
	Sleep(ctx context.Context, d time.Duration) error
}

// An Arrival is a UDP payload that came.
type Arrival struct {
	From    netip.AddrPort
	To      netip.Addr
	Payload []byte // the receiver's to keep
}

// A Config says how a script is played. Wire, Local and Peer are needed.
type Config struct {
	Wire   Wire
	Target Target // the other side if it is in this process, or nil

	Local, Peer netip.AddrPort

	Set   map[string]uint64 // variables that go before those with a param statement
	Limit time.Duration     // how long a statement waits that does not say: 5 s if 0

	Trace func(line string) // is told of each packet, or nil
	Note  func(line string) // is told what a peer elsewhere has to do, or nil
}

// A Result says how far a script came.
type Result struct {
	Steps int // statements carried out, each time counted
}

// A Failure is a statement that was not fulfilled.
type Failure struct {
	Script    string
	Line      int
	Statement string
	Err       error // what was expected, and what came
}

// Error returns script:line: statement: what happened.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s:%d: %s: %v", f.Script, f.Line, f.Statement, f.Err)
}

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Err }

// defaultLimit is how long a statement waits.
const defaultLimit = 5 * time.Second

// firstQPN is the queue pair that the script plays if it does not say.
const firstQPN = 0x11

// Play carries the script out, until its end or the first statement that is not
// fulfilled: the error is a *Failure then.
func (s *Script) Play(ctx context.Context, c Config) (Result, error) {
	p := &player{Config: c, ctx: ctx, s: s, v: vars{"local_qpn": firstQPN}, seen: map[string]bool{}}
	maps.Copy(p.v, c.Set)
	if p.Limit <= 0 {
		p.Limit = defaultLimit
	}
	p.ends(c.Local, c.Peer)
	p.marked = p.Wire.Now()
	err := p.run(s.steps)
	if err == nil && p.ready {
		err = p.leftOver()
	}
	return Result{p.steps}, err
}

// A player is a script that is being played.
type player struct {
	Config
	ctx   context.Context
	s     *Script
	v     vars
	steps int

	ready   bool // the target is set up
	out, in ends // for the ICRC of what is sent and received
	marked  time.Time
	ignored []pattern
	repeats bool            // packets that came before are ignored, too
	seen    map[string]bool // what came, without ICRC
}

// ends notes the addresses of both ends.
func (p *player) ends(local, peer netip.AddrPort) {
	p.out = ends{roce.Path{Src: local, Dst: peer, HopLimit: 64, Ident: roce.Segment(0)}}
	p.in = ends{roce.Path{Src: peer, Dst: local, HopLimit: 64, Ident: roce.Segment(0)}}
}

// run carries statements out.
func (p *player) run(steps []step) error {
	for _, s := range steps {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		p.steps++
		err := s.do(p)
		inner := (*Failure)(nil)
		switch {
		case err == nil:
		case errors.As(err, &inner) || p.ctx.Err() != nil:
			return err
		default:
			return &Failure{p.s.name, s.line, s.text, err}
		}
	}
	return nil
}

// repeat carries a block out several times.
func (p *player) repeat(b block, body []step) error {
	n, err := b.times(p.v)
	if err != nil {
		return err
	}
	for i := range n {
		if b.as != "" {
			p.v[b.as] = i
		}
		if err := p.run(body); err != nil {
			return err
		}
		if len(body) == 0 {
			break
		}
	}
	return nil
}

// receive returns the next packet from the peer. It is not ok when none came.
func (p *player) receive(deadline time.Time) (x roce.Packet, ok bool, err error) {
	for {
		a, ok, err := p.Wire.Recv(p.ctx, deadline)
		switch {
		case err != nil || !ok:
			return x, false, err
		case a.From.Addr() != p.Peer.Addr():
			p.trace("?", fmt.Sprintf("%d bytes from %v", len(a.Payload), a.From))
			continue
		case a.To != p.Local.Addr():
			return x, false, fmt.Errorf("a packet came to %v", a.To)
		}
		x, ok = roce.Parse(a.Payload)
		if !ok {
			return x, false, fmt.Errorf("%d bytes came that are no packet: %x", len(a.Payload), a.Payload[:min(len(a.Payload), 64)])
		}
		in := p.in
		in.path.Src = a.From
		if in.damaged(x) {
			return x, false, fmt.Errorf("a packet came with a bad ICRC: %v", x)
		}
		p.trace("<", x.String())
		return x, true, nil
	}
}

// trace tells of a packet.
func (p *player) trace(direction, text string) {
	if p.Trace != nil {
		p.Trace(direction + " " + text)
	}
}

// transmit sends a UDP payload, and marks the time.
func (p *player) transmit(from, to netip.Addr, b []byte) error {
	if p.Trace != nil {
		text := fmt.Sprintf("%d bytes", len(b))
		if x, ok := roce.Parse(b); ok {
			text = x.String()
		}
		p.trace(">", text)
	}
	p.marked = p.Wire.Now()
	return p.Wire.Send(from, to, b)
}

// resolve returns an address that a script names.
func (p *player) resolve(a address) netip.Addr { return a.near(p.Local.Addr(), p.Peer.Addr()) }
