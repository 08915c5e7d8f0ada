package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/side"
	"github.com/gantry-rdma/gantry/mem"
)

// service is the name of the server in the roles of this package.
const service = "faults"

// Of a talker.
const (
	slots    = 8    // receives, and as many sends
	slotSize = 5000 // more than what a producer copies in one step
)

// A card is what both sides open.
type card struct {
	dpu, host *device.Device
	rep       *device.Representor
}

func openCard() (c *card, err error) {
	c = new(card)
	if c.dpu, c.rep, err = side.OpenDPU("", ""); err != nil {
		return nil, err
	}
	c.host, err = side.OpenHost(c.rep.Info().PCI().String())
	return c, err
}

func (c *card) close() error { return errors.Join(c.rep.Close(), c.dpu.Close(), c.host.Close()) }

// A talker is a consumer and a producer at one connection, on the engine of the
// control path.
type talker struct {
	area *mem.Map
	bufs *mem.Inventory
	in   *comch.Consumer
	out  *comch.Producer
	peer uint16                // consumer that is sent to, or 0
	free []*comch.ProducerSend // each with a slot of its own
	held []*mem.Buf
	late [][]byte // to be sent when that is possible
	took func([]byte)
	over bool
	err  error
}

// newTalker starts the fast path of a connection. took is given each message.
func newTalker(e *core.Engine, c *comch.Connection, d *device.Device, took func([]byte)) (*talker, error) {
	t := &talker{took: took}
	var err error
	keep := func(e error) { core.KeepFirst(&err, e) }
	t.area, err = mem.NewMap()
	keep(t.area.Allocate(2*slots*slotSize, mem.AllocOptions{Shareable: true}))
	keep(t.area.SetAccess(mem.LocalReadWrite | mem.PCIReadWrite))
	keep(t.area.AddDevice(d))
	keep(t.area.Start())
	var e2 error
	t.bufs, e2 = mem.NewInventory(2 * slots)
	keep(e2)
	keep(t.bufs.Start())
	if t.in, e2 = comch.NewConsumer(c, t.area); e2 != nil {
		return nil, errors.Join(err, e2, t.bufs.Destroy(), t.area.Destroy())
	}
	if t.out, e2 = comch.NewProducer(c); e2 != nil {
		return nil, errors.Join(err, e2, t.in.Destroy(), t.bufs.Destroy(), t.area.Destroy())
	}
	keep(e.Connect(&t.in.Context))
	keep(e.Connect(&t.out.Context))
	keep(t.in.ConfigurePostRecv(t.received, func(p *comch.PostRecv) { _ = p.Free() }, slots))
	keep(t.out.ConfigureSend(t.sent, t.sent, slots))
	t.in.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			core.KeepFirst(&t.err, t.post())
		}
	})
	// Either may find that the other side has left by now.
	if e := t.in.Start(); !errors.Is(e, core.ErrInProgress) && !errors.Is(e, core.ErrConnectionReset) {
		keep(e)
	}
	if e := t.out.Start(); !errors.Is(e, core.ErrConnectionReset) {
		keep(e)
	}
	return t, err
}

// post posts all receives, and makes the tasks that send.
func (t *talker) post() (err error) {
	base := mem.AddrOf(t.area.Bytes())
	for i := range 2 * slots {
		b, e := t.bufs.ByAddr(t.area, base+mem.Addr(i*slotSize), slotSize)
		if e != nil {
			return e
		}
		t.held = append(t.held, b)
		if i >= slots {
			s, e := t.out.AllocSend(b, nil, 1)
			if e == core.ErrBadState {
				return nil // the other side left before the producer started
			}
			if e != nil {
				return e
			}
			t.free = append(t.free, s)
			continue
		}
		p, e := t.in.AllocPostRecv(b)
		if e != nil {
			return e
		}
		if e = p.Submit(); e != nil {
			core.KeepFirst(&err, p.Free())
		}
	}
	return err
}

// received hands a message on, and posts its receive again.
func (t *talker) received(p *comch.PostRecv) {
	t.took(p.Buf().Data())
	_ = p.Buf().ResetDataLen()
	if t.over || p.Submit() != nil {
		_ = p.Free()
	}
}

func (t *talker) sent(s *comch.ProducerSend) {
	if t.over {
		_ = s.Free()
		return
	}
	t.free = append(t.free, s)
}

// send sends a message, now or later.
func (t *talker) send(m []byte) { t.late = append(t.late, slices.Clone(m)) }

// flush sends what is late, as far as that is possible.
func (t *talker) flush() {
	for len(t.late) > 0 && len(t.free) > 0 && t.peer != 0 && !t.over {
		s := t.free[len(t.free)-1]
		m := t.late[0]
		_ = s.Buf().SetDataLen(len(m))
		copy(s.Buf().Data(), m)
		_ = s.SetConsumerID(t.peer)
		if s.Submit() != nil {
			return
		}
		t.free, t.late = t.free[:len(t.free)-1], t.late[1:]
	}
}

// stop ends both; done then says when.
func (t *talker) stop() {
	if t.over {
		return
	}
	t.over = true
	for _, s := range t.free {
		_ = s.Free()
	}
	_, _ = t.in.Stop(), t.out.Stop()
}

// done gives everything back when both have ended, and reports whether they
// have.
func (t *talker) done() (bool, error) {
	if t.in.State() != core.Idle || t.out.State() != core.Idle {
		return false, nil
	}
	err := errors.Join(t.in.Destroy(), t.out.Destroy())
	for _, b := range t.held {
		_, e := b.Unref()
		core.KeepFirst(&err, e)
	}
	return true, errors.Join(err, t.bufs.Destroy(), t.area.Destroy())
}

// message returns number n of the messages of an honest client.
func message(n int) []byte {
	m := make([]byte, 8+n*37%(slotSize-8))
	binary.LittleEndian.PutUint64(m, uint64(n))
	for i := 8; i < len(m); i++ {
		m[i] = byte(n + i)
	}
	return m
}

// sendControl sends a message on the control path.
func sendControl(alloc func(*comch.Connection, []byte) (*comch.Send, error), c *comch.Connection, m []byte) error {
	t, err := alloc(c, m)
	if err != nil {
		return err
	}
	if err = t.Submit(); err != nil {
		_ = t.Free()
	}
	return err
}

// unexpected is the error of an honest client that got something else.
func unexpected(what string, n int, got []byte) error {
	return fmt.Errorf("%s %d: got %d bytes, %x", what, n, len(got), got[:min(len(got), 16)])
}
