package dmacopy

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/internal/side"
	"github.com/gantry-rdma/gantry/mem"
)

// A dpu is the server: it copies between the host's window and memory of its
// own, with a task for each slot. One engine moves the channel and the copies.
type dpu struct {
	*session
	rep    *device.Representor
	server *comch.Server
	left   error // why the host is not there any more

	window *mem.Map // the host's
	local  *mem.Map // as large
	bufs   *mem.Inventory
	dma    *dma.Context
	tasks  []*dma.Memcpy // one for each slot, with its bufs; User is the chunk
	next   int64         // the chunk that is copied next
}

func (d *dpu) open() (err error) {
	if d.device, d.rep, err = side.OpenDPU(d.Device, d.Representor); err != nil {
		return err
	}
	if d.server, err = comch.NewServer(d.device, d.rep, serviceName); err != nil {
		return err
	}
	core.KeepFirst(&err, d.engine.Connect(&d.server.Context))
	core.KeepFirst(&err, d.server.ConfigureSend(d.sent, d.sent, sendTasks))
	core.KeepFirst(&err, d.server.SetMessageFunc(d.message))
	core.KeepFirst(&err, d.server.SetConnectionFuncs(d.connected, d.disconnected))
	return err
}

// meet waits for a client.
func (d *dpu) meet(ctx context.Context) error {
	if err := d.server.Start(); err != nil {
		if errors.Is(err, core.ErrAlreadyExists) {
			return fmt.Errorf("another process is the DPU side for the host function %s already: stop it, or choose another function: %w", d.rep.Info().PCI(), err)
		}
		return err
	}
	d.Note(fmt.Sprintf("the DPU side on %s waits for the host side on %s", d.device.Info().PCI(), d.rep.Info().PCI()))
	return d.engine.Run(ctx, func() bool { return d.conn != nil })
}

// connected takes the first client.
func (d *dpu) connected(c *comch.Connection, _ bool) {
	if d.conn == nil {
		d.conn = c
	}
}

// message sends another client away as soon as it says something: then it is
// ready to hear why.
func (d *dpu) message(c *comch.Connection, m []byte) {
	if c == d.conn {
		d.receive(m)
		return
	}
	if c.User++; c.User == 1 {
		_ = d.tellOn(c, status{reason: "it is copying with another process"}.encode())
		_ = d.server.Disconnect(c)
	}
}

func (d *dpu) disconnected(c *comch.Connection, _ bool) {
	if c == d.conn {
		d.left = d.gone(c.Err())
	}
}

func (d *dpu) alloc(c *comch.Connection, m []byte) (*comch.Send, error) {
	return d.server.AllocSend(c, m)
}

// begin does nothing: the host makes the window.
func (d *dpu) begin() error { return nil }

// take handles the EXPORT, and READY for the chunks in their order.
func (d *dpu) take(m []byte) (bool, error) {
	if m[0] == kindExport {
		e, ok := parseExport(m)
		if !ok || d.window != nil {
			return false, nil
		}
		return true, d.attach(e)
	}
	n, ok := parseTurn(m)
	slots := int64(len(d.tasks))
	if d.src != nil {
		n += slots // what was in the slot is written: here is the next for it
	}
	if !ok || m[0] != kindReady || n != d.next || n >= d.count || n >= d.moved+slots {
		return false, nil
	}
	return true, d.copy()
}

// attach imports the window, and makes the tasks.
func (d *dpu) attach(e export) (err error) {
	if d.window, err = mem.Import(0, nil, e.blob, d.device); err != nil {
		return fmt.Errorf("import the window of the host: %w", err)
	}
	d.chunk, d.slots = e.chunk, e.slots
	d.count = d.chunks()
	if d.local, err = d.memory(d.slots*d.chunk, mem.AllocOptions{}, mem.LocalReadWrite); err != nil {
		return err
	}
	if d.bufs, err = mem.NewInventory(2 * d.slots); err != nil {
		return err
	}
	if d.dma, err = dma.New(d.device); err != nil {
		return err
	}
	core.KeepFirst(&err, d.bufs.Start())
	core.KeepFirst(&err, d.engine.Connect(&d.dma.Context))
	core.KeepFirst(&err, d.dma.ConfigureMemcpy(d.copied, d.failed, d.slots))
	core.KeepFirst(&err, d.dma.SetOrderedCompletions(true))
	core.KeepFirst(&err, d.dma.Start())
	if err != nil {
		return err
	}
	for i := range d.slots {
		if err := d.addTask(e, i); err != nil {
			return err
		}
	}
	if d.src == nil {
		return nil // the host says when there is something
	}
	for d.next < min(int64(d.slots), d.count) {
		if err := d.copy(); err != nil {
			return err
		}
	}
	return nil
}

// addTask makes the task of slot i, from the source to the sink.
func (d *dpu) addTask(e export, i int) error {
	at := mem.Addr(i * d.chunk)
	there, err := d.bufs.ByAddr(d.window, e.addr+at, d.chunk)
	if err != nil {
		return fmt.Errorf("slot %d of the host: %w", i, err)
	}
	base, _, err := d.local.Range()
	if err != nil {
		return err
	}
	here, err := d.bufs.ByAddr(d.local, base+at, d.chunk)
	if err != nil {
		return err
	}
	from, to := there, here
	if d.src != nil {
		from, to = here, there
	}
	t, err := d.dma.AllocMemcpy(from, to)
	if err == nil {
		d.tasks = append(d.tasks, t)
	}
	return err
}

// copy submits the next chunk. Once the host has taken its window away, or is
// dead, there is nothing to copy, whatever it has asked for before: then the end
// of the connection, or the host's last word, is what ends this side too.
func (d *dpu) copy() (err error) {
	n := d.next
	t := d.tasks[n%int64(len(d.tasks))]
	t.User = uint64(n)
	core.KeepFirst(&err, t.Src().SetDataLen(d.length(n)))
	core.KeepFirst(&err, t.Dst().ResetDataLen())
	if err == nil && d.src != nil {
		err = d.src.read(t.Src().Data())
	}
	if err == nil {
		err = t.Submit()
	}
	d.next++
	if d.window.Revoked() {
		return nil
	}
	return err
}

// copied is called for each chunk that was moved, in their order. The host gets
// its slot back before this side writes.
func (d *dpu) copied(t *dma.Memcpy) {
	if d.deaf() {
		return
	}
	d.keep(d.tell(encodeTurn(kindDone, int64(t.User))))
	if !d.deaf() && d.dst != nil {
		d.keep(d.dst.write(t.Dst().Data()))
	}
	if !d.deaf() {
		d.keep(d.through())
	}
}

// failed is called for a chunk that was not moved. If the host has taken its
// window away, it says why, or ends: that explains more than this.
func (d *dpu) failed(t *dma.Memcpy) {
	if !d.window.Revoked() && t.Status() != core.ErrFlushed {
		d.keep(fmt.Errorf("the copy at byte %d: %w", int64(t.User)*int64(d.chunk), t.Status()))
	}
}

func (d *dpu) lost() error { return d.left }

func (d *dpu) leave(ctx context.Context) error { return d.server.Shutdown(ctx) }

func (d *dpu) close() (err error) {
	if d.dma != nil {
		core.KeepFirst(&err, d.stopCopies())
	}
	if d.bufs != nil {
		core.KeepFirst(&err, d.bufs.Destroy())
	}
	for _, m := range []*mem.Map{d.window, d.local} {
		if m != nil {
			core.KeepFirst(&err, m.Destroy())
		}
	}
	if d.server != nil {
		core.KeepFirst(&err, d.server.Destroy())
	}
	if d.rep != nil {
		core.KeepFirst(&err, d.rep.Close())
	}
	return err
}

// stopCopies flushes the tasks and frees them with their bufs.
func (d *dpu) stopCopies() (err error) {
	if d.dma.Engine() != nil && d.dma.State() == core.Running {
		core.KeepFirst(&err, d.dma.Stop())
		if errors.Is(err, core.ErrInProgress) {
			err = nil
		}
	}
	for d.dma.Inflight() > 0 {
		d.engine.Progress()
	}
	for _, t := range d.tasks {
		for _, b := range []*mem.Buf{t.Src(), t.Dst()} {
			_, e := b.Unref()
			core.KeepFirst(&err, e)
		}
		core.KeepFirst(&err, t.Free())
	}
	if d.dma.Engine() != nil {
		core.KeepFirst(&err, d.dma.Shutdown(context.Background()))
	}
	core.KeepFirst(&err, d.dma.Destroy())
	return err
}
