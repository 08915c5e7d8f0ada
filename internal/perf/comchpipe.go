package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/mem"
)

// What a message is for, in its immediate data.
const (
	messageStream = 'S' // to be counted
	messagePing   = 'P' // to be sent back
	messageEcho   = 'E' // what was sent back
	messageLast   = 'Q' // the last of a slice
)

// stampSize is the length of the number in front of a message that has room.
const stampSize = 8

// A comchPipe is a producer and a consumer with their memory. It belongs to one
// goroutine.
type comchPipe struct {
	ComchPoint
	end       *comchEnd
	out, in   *mem.Map
	inventory *mem.Inventory
	producer  *comch.Producer
	consumer  *comch.Consumer
	sends     []*comch.ProducerSend // that are free
	all       []*comch.ProducerSend
	receives  []*comch.PostRecv
	bufs      []*mem.Buf

	numbered uint64 // messages sent in this slice
	arrived  uint64 // of the peer's in this slice
	flying   int    // sends that have not completed
	owed     int    // echoes
	echoed   bool
	last     bool
	checked  uint64 // in all slices
	failed   error
	idle     int
}

func newComchPipe(e *comchEnd, t ComchPoint) (p *comchPipe, err error) {
	p = &comchPipe{ComchPoint: t, end: e}
	if err = p.build(); err != nil {
		_ = p.close() // the first error says why
		return nil, err
	}
	return p, nil
}

func (p *comchPipe) build() (err error) {
	if p.out, err = p.newMap(); err != nil {
		return err
	}
	if p.in, err = p.newMap(); err != nil {
		return err
	}
	if p.inventory, err = mem.NewInventory(2 * p.Window); err != nil {
		return err
	}
	if err = p.inventory.Start(); err != nil {
		return err
	}
	if p.producer, err = comch.NewProducer(p.end.conn); err != nil {
		return err
	}
	if p.consumer, err = comch.NewConsumer(p.end.conn, p.in); err != nil {
		return err
	}
	return p.start()
}

// newMap makes shareable memory for a window of messages.
func (p *comchPipe) newMap() (m *mem.Map, err error) {
	if m, err = mem.NewMap(); err != nil {
		return nil, err
	}
	err = m.Allocate(p.Size*p.Window, mem.AllocOptions{Shareable: true})
	if err == nil {
		err = m.AddDevice(p.end.device)
	}
	if err == nil {
		err = m.SetAccess(mem.LocalReadWrite | mem.PCIReadWrite)
	}
	if err == nil {
		err = m.Start()
	}
	if err != nil {
		_ = m.Destroy()
		return nil, err
	}
	for i := range m.Bytes() { // so that it is there
		m.Bytes()[i] = byte(i)
	}
	return m, nil
}

func (p *comchPipe) start() error {
	err := p.producer.ConfigureSend(p.sent, p.notSent, p.Window)
	core.KeepFirst(&err, p.consumer.ConfigurePostRecv(p.received, p.notReceived, p.Window))
	core.KeepFirst(&err, p.end.data.Connect(&p.producer.Context))
	core.KeepFirst(&err, p.end.data.Connect(&p.consumer.Context))
	if err != nil {
		return err
	}
	p.consumer.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			core.KeepFirst(&p.failed, p.post())
		}
	})
	if err = p.producer.Start(); err != nil {
		return err
	}
	for i := range p.Window {
		b, err := p.inventory.ByData(p.out, mem.AddrOf(p.out.Bytes())+mem.Addr(i*p.Size), p.Size)
		if err != nil {
			return err
		}
		p.bufs = append(p.bufs, b)
		t, err := p.producer.AllocSend(b, nil, 0)
		if err != nil {
			return err
		}
		p.sends, p.all = append(p.sends, t), append(p.all, t)
	}
	if err = p.consumer.Start(); err != core.ErrInProgress {
		return err
	}
	return nil
}

// post posts all receives.
func (p *comchPipe) post() error {
	for i := range p.Window {
		b, err := p.inventory.ByAddr(p.in, mem.AddrOf(p.in.Bytes())+mem.Addr(i*p.Size), p.Size)
		if err != nil {
			return err
		}
		p.bufs = append(p.bufs, b)
		t, err := p.consumer.AllocPostRecv(b)
		if err != nil {
			return err
		}
		p.receives = append(p.receives, t)
		if err = t.Submit(); err != nil {
			return err
		}
	}
	return nil
}

// begin starts a slice.
func (p *comchPipe) begin() { p.numbered, p.arrived, p.last = 0, 0, false }

// trySend sends a message, and reports whether there was a task and a receive
// for it.
func (p *comchPipe) trySend(op byte) bool {
	n := len(p.sends)
	if n == 0 {
		return false
	}
	t := p.sends[n-1]
	if p.Size >= stampSize {
		binary.LittleEndian.PutUint64(t.Buf().Data(), p.numbered)
	}
	err := t.SetConsumerID(p.end.remote)
	core.KeepFirst(&err, t.SetImm([]byte{op}))
	if err == nil {
		err = t.Submit()
	}
	switch {
	case err == core.ErrAgain:
		return false
	case err != nil:
		core.KeepFirst(&p.failed, err)
		return false
	}
	p.sends = p.sends[:n-1]
	p.flying++
	p.numbered++
	return true
}

// put is trySend until it is sent.
func (p *comchPipe) put(op byte) {
	for !p.trySend(op) && p.failed == nil {
		p.turn()
	}
}

// sent is the callback of a send.
func (p *comchPipe) sent(t *comch.ProducerSend) {
	p.flying--
	p.sends = append(p.sends, t)
}

func (p *comchPipe) notSent(t *comch.ProducerSend) {
	core.KeepFirst(&p.failed, fmt.Errorf("a send failed: %w", t.Status()))
	p.sent(t)
}

// received is the callback of a receive: it is posted again at once.
func (p *comchPipe) received(t *comch.PostRecv) {
	p.check(t)
	p.arrived++
	op := t.Imm()[0]
	_ = t.Buf().ResetDataLen()
	if err := t.Submit(); err != nil { // it may have been the last one posted: nothing else would tell of the end
		core.KeepFirst(&p.failed, fmt.Errorf("the other process has gone: %w", err))
	}
	switch op {
	case messagePing:
		p.owed++
		p.echo()
	case messageEcho:
		p.echoed = true
	case messageLast:
		p.last = true
	}
}

// echo sends what is owed, as far as there are tasks.
func (p *comchPipe) echo() {
	for p.owed > 0 && p.trySend(messageEcho) {
		p.owed--
	}
}

// check compares the number of a message with how many came before it.
func (p *comchPipe) check(t *comch.PostRecv) {
	if t.Len() != p.Size || len(t.Imm()) != 1 {
		core.KeepFirst(&p.failed, fmt.Errorf("message %d has %d bytes, want %d: %w", p.arrived, t.Len(), p.Size, core.ErrIOFailed))
		return
	}
	if p.Size < stampSize {
		return
	}
	if n := binary.LittleEndian.Uint64(t.Buf().Data()); n != p.arrived {
		core.KeepFirst(&p.failed, fmt.Errorf("message %d came where %d was next: %w", n, p.arrived, core.ErrIOFailed))
		return
	}
	p.checked++
}

// notReceived is the callback of a receive that was flushed, which is the end
// of the pipe, or of the peer.
func (p *comchPipe) notReceived(t *comch.PostRecv) {
	if s := t.Status(); s != core.ErrFlushed {
		core.KeepFirst(&p.failed, fmt.Errorf("the other process has gone: %w", s))
	}
}

// A poller that has found nothing for so many turns, a few microseconds, lets
// another one have its CPU: where there are not enough of them, the peer waits
// for it.
const comchYieldTurns = 96

// turn progresses once. With nothing to do it waits, by event, or yields now
// and then. It need not hear of a measurement that is given up: that ends the
// peer, which wakes it.
func (p *comchPipe) turn() {
	p.echo()
	if p.Mode == modeEvent {
		core.KeepFirst(&p.failed, progressOrWait(context.Background(), p.end.data))
		return
	}
	if p.end.data.Progress() {
		p.idle = 0
		return
	}
	if p.idle++; p.idle%comchYieldTurns == 0 {
		notify.Yield()
		runtime.Gosched()
		core.KeepFirst(&p.failed, p.end.ctx.Err())
	}
}

// serve takes what the peer sends until that says that it was the last.
func (p *comchPipe) serve() error {
	for !p.last && p.failed == nil {
		p.turn()
	}
	return p.failed
}

// settle waits until all that was sent has completed.
func (p *comchPipe) settle() error {
	for p.flying+p.owed > 0 && p.failed == nil {
		p.turn()
	}
	return p.failed
}

// close ends the pipe, however far it was built.
func (p *comchPipe) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, t := range p.all {
		_ = t.Free() // one in flight is released when it completes
	}
	for _, t := range p.receives {
		_ = t.Free()
	}
	if p.producer != nil {
		core.KeepFirst(&err, p.producer.Shutdown(ctx))
		core.KeepFirst(&err, p.producer.Destroy())
	}
	if p.consumer != nil {
		core.KeepFirst(&err, p.consumer.Shutdown(ctx))
		core.KeepFirst(&err, p.consumer.Destroy())
	}
	for _, b := range p.bufs {
		_, _ = b.Unref()
	}
	if p.inventory != nil {
		core.KeepFirst(&err, p.inventory.Destroy())
	}
	for _, m := range []*mem.Map{p.out, p.in} {
		if m != nil {
			core.KeepFirst(&err, m.Destroy())
		}
	}
	return err
}
