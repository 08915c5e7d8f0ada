package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
)

func init() {
	roles["server"] = playServer
	roles["honest"] = playHonest
}

// untilEOF returns a context that ends with the standard input.
func untilEOF() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// A server sends everything back, to any number of clients.
type server struct {
	*comch.Server
	engine  *core.Engine
	card    *card
	talkers map[*comch.Connection]*talker
	dying   []*talker
	unsent  map[*comch.Connection]int // control messages on their way
	err     error
}

// share is how many of the tasks that send control messages a client may have:
// one that never reads must not get them all.
const share = 4

// playServer serves until the standard input ends, in which time nothing that a
// client does may harm it.
func playServer() error {
	debug.SetTraceback("all")
	c, err := openCard()
	if err != nil {
		return err
	}
	s := &server{card: c, talkers: map[*comch.Connection]*talker{}, unsent: map[*comch.Connection]int{}}
	s.engine, err = core.NewEngine()
	var e error
	s.Server, e = comch.NewServer(c.dpu, c.rep, service)
	if err = errors.Join(err, e); err != nil {
		return err
	}
	err = errors.Join(
		s.engine.Connect(&s.Server.Context),
		s.ConfigureSend(s.sent, s.sent, 256),
		s.SetMessageFunc(s.heard),
		s.SetConnectionFuncs(s.connected, s.disconnected),
		s.SetConsumerFuncs(s.found, s.expired),
		s.Start())
	fmt.Println("ready")
	ctx := untilEOF()
	if e := s.engine.Run(ctx, s.step); e != context.Canceled {
		core.KeepFirst(&err, e)
	}
	core.KeepFirst(&err, s.leave())
	fmt.Println("rejected", s.Rejected())
	return errors.Join(err, s.err, s.Destroy(), s.engine.Destroy(), c.close())
}

// leave stops everything. Clients that hold that up are cut off.
func (s *server) leave() (err error) {
	var conns []*comch.Connection
	for c := range s.talkers {
		conns = append(conns, c)
		s.disconnected(c, true)
	}
	if e := s.Stop(); e != core.ErrInProgress {
		err = e
	}
	ended := func() bool { s.step(); return len(s.dying) == 0 && s.State() == core.Idle }
	patience, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.engine.Run(patience, ended) == nil {
		return err
	}
	for _, c := range conns {
		c.Abort()
	}
	return errors.Join(err, s.engine.Run(context.Background(), ended))
}

// heard sends a control message back, unless the client is too busy to read.
func (s *server) heard(c *comch.Connection, m []byte) {
	if s.unsent[c] < share && sendControl(s.AllocSend, c, slices.Clone(m)) == nil {
		s.unsent[c]++
	}
}

func (s *server) sent(t *comch.Send) {
	if s.unsent[t.Connection()]--; s.unsent[t.Connection()] == 0 {
		delete(s.unsent, t.Connection())
	}
	_ = t.Free()
}

func (s *server) connected(c *comch.Connection, _ bool) {
	t, err := newTalker(s.engine, c, s.card.dpu, func([]byte) {})
	if t == nil {
		return // it has left already
	}
	core.KeepFirst(&s.err, err)
	t.took = t.send
	s.talkers[c] = t
}

func (s *server) disconnected(c *comch.Connection, _ bool) {
	if t := s.talkers[c]; t != nil {
		t.stop()
		delete(s.talkers, c)
		s.dying = append(s.dying, t)
	}
}

func (s *server) found(c *comch.Connection, id uint16) {
	if t := s.talkers[c]; t != nil {
		t.peer = id
	}
}

func (s *server) expired(c *comch.Connection, id uint16) {
	if t := s.talkers[c]; t != nil && t.peer == id {
		t.peer = 0
	}
}

// step is asked by the engine's loop, after everything that has happened.
func (s *server) step() bool {
	for _, t := range s.talkers {
		t.flush()
		core.KeepFirst(&s.err, t.err)
	}
	s.dying = slices.DeleteFunc(s.dying, func(t *talker) bool {
		done, err := t.done()
		core.KeepFirst(&s.err, err)
		return done
	})
	return false
}

// A client is one that does everything right, and expects the same.
type client struct {
	*comch.Client
	engine    *core.Engine
	talk      *talker
	sent, got int // on the fast path
	asked     int // on the control path
	answered  int
	err       error
}

// playHonest talks to the server until the standard input ends, on both paths.
// Whatever others do: every message comes back.
func playHonest() error {
	card, err := openCard()
	if err != nil {
		return err
	}
	c := new(client)
	c.engine, err = core.NewEngine()
	var e error
	c.Client, e = comch.NewClient(card.host, service)
	if err = errors.Join(err, e); err != nil {
		return err
	}
	free := func(t *comch.Send) { _ = t.Free() }
	err = errors.Join(
		c.engine.Connect(&c.Client.Context),
		c.ConfigureSend(free, free, 64),
		c.SetMessageFunc(c.heard),
		c.SetConsumerFuncs(func(_ *comch.Connection, id uint16) {
			if c.talk != nil {
				c.talk.peer = id
			}
		}, func(*comch.Connection, uint16) {}))
	c.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			conn, e := c.Connection()
			core.KeepFirst(&c.err, e)
			c.talk, e = newTalker(c.engine, conn, card.host, c.took)
			core.KeepFirst(&c.err, e)
		}
	})
	if e := c.Start(); e != core.ErrInProgress {
		core.KeepFirst(&err, e)
	}
	ctx := untilEOF()
	if err != nil {
		return err
	}
	err = c.engine.Run(context.Background(), func() bool { return c.step(ctx.Err() == nil) })
	err = errors.Join(err, c.err, c.leave(), card.close())
	fmt.Println("honest", c.got, c.answered)
	return err
}

// step keeps a few messages on their way, and reports the end: an error, or
// that all are back and no more shall be sent.
func (c *client) step(more bool) (over bool) {
	if c.talk == nil || c.err != nil {
		return c.err != nil || c.State() == core.Idle
	}
	if c.State() != core.Running {
		core.KeepFirst(&c.err, fmt.Errorf("the client is %v: %w", c.State(), c.Err()))
		return true
	}
	conn, _ := c.Connection()
	for more && c.sent < c.got+slots/2 {
		c.talk.send(message(c.sent))
		if c.sent++; c.sent%64 == 1 {
			fmt.Println("sent", c.sent)
		}
	}
	if more && c.asked == c.answered {
		core.KeepFirst(&c.err, sendControl(c.AllocSend, conn, message(c.asked)[:8]))
		c.asked++
	}
	c.talk.flush()
	return !more && c.got == c.sent && c.answered == c.asked
}

func (c *client) took(m []byte) {
	if !bytes.Equal(m, message(c.got)) {
		core.KeepFirst(&c.err, unexpected("message", c.got, m))
	}
	c.got++
}

func (c *client) heard(_ *comch.Connection, m []byte) {
	if !bytes.Equal(m, message(c.answered)[:8]) {
		core.KeepFirst(&c.err, unexpected("control message", c.answered, m))
	}
	c.answered++
}

// leave ends everything.
func (c *client) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if c.talk == nil {
		return errors.Join(c.Shutdown(ctx), c.Destroy(), c.engine.Destroy())
	}
	c.talk.stop()
	var err error
	e := c.engine.Run(ctx, func() bool {
		done, e := c.talk.done()
		core.KeepFirst(&err, e)
		return done
	})
	return errors.Join(e, err, c.Shutdown(ctx), c.Destroy(), c.engine.Destroy())
}
