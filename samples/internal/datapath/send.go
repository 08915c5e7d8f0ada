package datapath

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
)

// A sender is the producer's part: one message. Its engine is its own, so that
// it could be on a goroutine of its own.
type sender struct {
	*Path
	memory
	engine   *core.Engine
	producer *comch.Producer
	task     *comch.ProducerSend
	over     bool
	err      error
}

// Send waits for the consumer of the other process, and sends it the message.
func (p *Path) Send(ctx context.Context) (err error) {
	defer func() { err = p.explain(err) }()
	// That there is a consumer is news of the control path.
	if err := p.Control.Run(ctx, func() bool { return p.consumer != 0 || p.Lost != nil }); err != nil {
		return p.Missed(err, "the other process has no consumer")
	}
	if p.consumer == 0 {
		return p.Lost
	}
	s := &sender{Path: p}
	message := p.message()
	if s.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, s.engine.Destroy)
	defer p.Clean(&err, s.close)
	if err := s.open(p, len(message)); err != nil {
		return err
	}
	copy(s.bytes, message)
	if s.producer, err = comch.NewProducer(p.Conn); err != nil {
		return err
	}
	defer p.Clean(&err, s.producer.Destroy)

	// From here on nobody drives the control path: a message needs the engine of
	// the producer only.
	if err := s.start(); err != nil {
		return err
	}
	defer p.Clean(&err, func() error { return stage.Leave(s.producer.Shutdown, p.Conn) })
	defer s.giveUp()
	if err := s.engine.Run(ctx, s.through); err != nil {
		return p.Missed(err, "the consumer posted no receive")
	}
	return s.err
}

// start connects, configures and starts the producer, which runs at once.
func (s *sender) start() error {
	if err := s.engine.Connect(&s.producer.Context); err != nil {
		return err
	}
	if err := s.producer.ConfigureSend(s.done, s.failed, 1); err != nil {
		return err
	}
	s.producer.SetStateFunc(s.state)
	return s.producer.Start()
}

// state is told of every transition: running, inside Start, is when to submit.
func (s *sender) state(c *core.Context, prev, next core.State) {
	s.Saw(c, prev, next)
	if next != core.Running {
		return
	}
	buf, err := s.bufs.ByData(s.area, mem.AddrOf(s.bytes), len(s.bytes))
	if err != nil {
		s.fail(err)
		return
	}
	if s.task, err = s.producer.AllocSend(buf, nil, s.consumer); err != nil {
		s.Drop(buf)
		s.fail(err)
		return
	}
	s.Tasks++
	s.submit()
}

// submit tries to submit. The consumer runs, but may not have posted its receive
// yet: then the task remains the sample's.
func (s *sender) submit() {
	if err := s.task.Submit(); err != nil && err != core.ErrAgain {
		s.fail(fmt.Errorf("submit on the data path: %w", err))
	}
}

// through tries again if the submit was refused. It is asked after everything
// that happens, and a receive that is posted counts as that; until then the
// engine may sleep.
func (s *sender) through() bool {
	if !s.over && s.task.Owned() {
		s.submit()
	}
	return s.over
}

// done is called when the message is in the memory of the consumer.
func (s *sender) done(t *comch.ProducerSend) {
	s.Completed++
	s.over = true
	s.Say("sent %d bytes to consumer %d, checksum %08x", len(s.bytes), t.ConsumerID(), crc32.ChecksumIEEE(s.bytes))
	s.release(t)
}

func (s *sender) failed(t *comch.ProducerSend) {
	s.Failed++
	s.fail(fmt.Errorf("send on the data path: %w", t.Status()))
	s.release(t)
}

// fail ends the sending.
func (s *sender) fail(err error) {
	s.over = true
	core.KeepFirst(&s.err, err)
}

// giveUp releases a task that was never submitted.
func (s *sender) giveUp() {
	if s.task != nil && s.task.Owned() {
		s.release(s.task)
	}
}

// release gives the buf and the task back.
func (s *sender) release(t *comch.ProducerSend) {
	s.task = nil
	s.Drop(t.Buf())
	s.Keep(t.Free())
}
