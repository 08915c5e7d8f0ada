package filecopy

import (
	"context"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
)

// A window is the fixed set of tasks that copy a file. Its callbacks run on
// the goroutine that called Copy.
type window struct {
	src   *source
	dst   io.WriterAt
	chunk int
	slots []slot // one for each task: Task.User is the index

	engine *core.Engine
	device *device.Device
	bufs   *mem.Inventory
	memory *mem.Map // what the tasks copy to: a chunk for each slot
	dma    *dma.Context

	next     int64 // where the next chunk starts
	done     int64 // bytes written
	chunks   int64 // submits
	busy     int   // tasks that were not freed
	err      error // the first one; from then on tasks are freed as they come
	progress func(done, total int64)
}

// A slot is what one task is doing: the n bytes of the file from off on.
type slot struct {
	room []byte
	off  int64
	n    int
}

// move copies the source through a window of tasks and returns how many
// submits it took.
func move(ctx context.Context, s *source, dst io.WriterAt, o Options) (chunks int64, err error) {
	if s.size == 0 {
		return 0, nil // a task without data would fail
	}
	w := &window{src: s, dst: dst, chunk: int(min(int64(o.Chunk), s.size)), progress: o.Progress}
	w.slots = make([]slot, min(int64(o.Tasks), (s.size+int64(w.chunk)-1)/int64(w.chunk)))
	defer func() { core.KeepFirst(&err, w.close()) }()
	if err := w.open(o); err != nil {
		return 0, err
	}
	if err := w.run(ctx); err != nil {
		return w.chunks, err
	}
	return w.chunks, s.whole()
}

// open makes everything that is needed, in the order in which things need each
// other. What was made before an error is for close.
func (w *window) open(o Options) (err error) {
	n := len(w.slots)
	if w.device, err = openDevice(); err != nil {
		return err
	}
	if w.bufs, err = mem.NewInventory(2 * n); err != nil {
		return err
	}
	if err = w.bufs.Start(); err != nil {
		return err
	}
	w.memory, err = newMap(w.device, func(m *mem.Map) error { return m.Allocate(n*w.chunk, mem.AllocOptions{}) })
	if err != nil {
		return fmt.Errorf("the memory for %d tasks of %d bytes: %w", n, w.chunk, err)
	}
	if err = w.src.prepare(w, o); err != nil {
		return err
	}
	if w.engine, err = core.NewEngine(); err != nil {
		return err
	}
	if w.dma, err = dma.New(w.device); err != nil {
		return err
	}
	if err = w.engine.Connect(&w.dma.Context); err != nil {
		return err
	}
	if err = w.dma.SetExecutor(o.Executor); err != nil {
		return err
	}
	if err = w.dma.ConfigureMemcpy(w.copied, w.failed, n); err != nil {
		return err
	}
	return w.dma.Start()
}

// openDevice opens the first device that copies memory.
func openDevice() (*device.Device, error) {
	infos, err := device.List()
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		if dma.Supported(i) == nil {
			return device.Open(i)
		}
	}
	return nil, fmt.Errorf("no device copies memory: %w", core.ErrNotSupported)
}

// run starts every task, and progresses until all of them are freed.
func (w *window) run(ctx context.Context) error {
	for i := range w.slots {
		if err := w.start(i); err != nil {
			w.keep(err)
			break
		}
	}
	err := w.engine.Run(ctx, func() bool { return w.busy == 0 })
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		w.keep(err)
	}
	// The context may have work left: then stopping flushes it.
	w.keep(w.dma.Shutdown(context.WithoutCancel(ctx)))
	if w.err == nil && w.done != w.src.size {
		return fmt.Errorf("%d of %d bytes were copied: %w", w.done, w.src.size, core.ErrUnexpected)
	}
	return w.err
}

// start takes the task of a slot and sends it on its way.
func (w *window) start(i int) error {
	w.slots[i].room = w.memory.Bytes()[i*w.chunk:][:w.chunk]
	dst, err := w.bufs.ByAddr(w.memory, mem.AddrOf(w.slots[i].room), w.chunk)
	if err != nil {
		return err
	}
	t, err := w.dma.AllocMemcpy(nil, dst)
	if err != nil {
		_, e := dst.Unref()
		core.KeepFirst(&err, e)
		return err
	}
	t.User = uint64(i)
	w.busy++
	w.advance(t)
	return nil
}

// copied is called when the chunk of a task is in its memory.
func (w *window) copied(t *dma.Memcpy) {
	w.keep(w.src.give(t.Src()))
	if w.err == nil {
		w.keep(w.write(&w.slots[t.User]))
	}
	w.advance(t)
}

// failed is called for a task that failed, or was flushed because another did.
func (w *window) failed(t *dma.Memcpy) {
	w.keep(w.src.give(t.Src()))
	if t.Status() != core.ErrFlushed {
		w.keep(w.src.explain(fmt.Errorf("at byte %d: %w", w.slots[t.User].off, t.Status())))
	}
	w.retire(t)
}

// write puts a chunk into the target.
func (w *window) write(s *slot) error {
	if _, err := w.dst.WriteAt(s.room[:s.n], s.off); err != nil {
		return fmt.Errorf("the target: %d of %d bytes were written: %w", w.done, w.src.size, err)
	}
	w.done += int64(s.n)
	if w.progress != nil {
		w.progress(w.done, w.src.size)
	}
	return nil
}

// advance submits a task for the next chunk, or frees it when there is none.
func (w *window) advance(t *dma.Memcpy) {
	if w.err == nil && w.next < w.src.size {
		if w.keep(w.submit(t)); w.err == nil {
			return
		}
	}
	w.retire(t)
}

// retire frees a task for good.
func (w *window) retire(t *dma.Memcpy) {
	_, err := t.Dst().Unref()
	w.keep(err)
	w.keep(t.Free())
	w.busy--
}

// submit points a task at the next chunk and hands it over.
func (w *window) submit(t *dma.Memcpy) error {
	s := &w.slots[t.User]
	s.off, s.n = w.next, int(min(int64(w.chunk), w.src.size-w.next))
	src, err := w.src.take(int(t.User), s.off, s.n)
	if err != nil {
		return err
	}
	core.KeepFirst(&err, t.SetSrc(src))
	core.KeepFirst(&err, t.Dst().ResetDataLen())
	if err == nil {
		err = t.Submit()
	}
	if err != nil {
		core.KeepFirst(&err, w.src.give(src))
		return err
	}
	w.next += int64(s.n)
	w.chunks++
	return nil
}

// keep remembers the first error.
func (w *window) keep(err error) { core.KeepFirst(&w.err, err) }

// close takes apart what open made.
func (w *window) close() (err error) {
	if w.dma != nil {
		core.KeepFirst(&err, w.dma.Destroy())
	}
	if w.engine != nil {
		core.KeepFirst(&err, w.engine.Destroy())
	}
	core.KeepFirst(&err, w.src.release())
	if w.memory != nil {
		core.KeepFirst(&err, w.memory.Destroy())
	}
	if w.bufs != nil {
		core.KeepFirst(&err, w.bufs.Destroy())
	}
	if w.device != nil {
		core.KeepFirst(&err, w.device.Close())
	}
	return err
}
