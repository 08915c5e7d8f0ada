package dmacopy

import (
	"context"
	"fmt"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/side"
	"github.com/gantry-rdma/gantry/mem"
)

// A host is the client: it lends the window.
type host struct {
	*session
	client *comch.Client
	window *mem.Map
	base   mem.Addr
	next   int64 // the chunk that is given to the DPU next: filled, or room for it
}

func (h *host) open() (err error) {
	if h.device, err = side.OpenHost(h.Device); err != nil {
		return err
	}
	if h.client, err = comch.NewClient(h.device, serviceName); err != nil {
		return err
	}
	core.KeepFirst(&err, h.engine.Connect(&h.client.Context))
	core.KeepFirst(&err, h.client.ConfigureSend(h.sent, h.sent, sendTasks))
	core.KeepFirst(&err, h.client.SetMessageFunc(func(_ *comch.Connection, m []byte) { h.receive(m) }))
	return err
}

// meet connects to the server, which may have to be started first.
func (h *host) meet(ctx context.Context) error {
	found := func(c *comch.Connection) { h.conn = c }
	absent := func() { h.Note(fmt.Sprintf("the host side on %s waits for the DPU side", h.device.Info().PCI())) }
	return side.Connect(ctx, h.engine, h.client, found, absent)
}

func (h *host) alloc(c *comch.Connection, m []byte) (*comch.Send, error) {
	return h.client.AllocSend(c, m)
}

// begin makes the window and gives all of it away.
func (h *host) begin() (err error) {
	access := mem.PCIReadWrite
	if h.src != nil {
		access = mem.PCIReadOnly
	}
	slots := int(min(int64(h.slots), h.count))
	if h.window, err = h.memory(slots*h.chunk, mem.AllocOptions{Shareable: true}, access); err != nil {
		return fmt.Errorf("the window of %d bytes: %w", slots*h.chunk, err)
	}
	blob, err := h.window.ExportPCI(h.device)
	if err != nil {
		return err
	}
	if h.base, _, err = h.window.Range(); err != nil {
		return err
	}
	h.slots = slots
	if err := h.tell(export{addr: h.base, chunk: h.chunk, slots: slots, blob: blob}.encode()); err != nil {
		return err
	}
	if h.src == nil {
		h.next = int64(slots) // the export says it all
		return nil
	}
	for range slots {
		if err := h.give(); err != nil {
			return err
		}
	}
	return nil
}

// slot returns the memory of chunk n.
func (h *host) slot(n int64) []byte {
	return h.window.Bytes()[int(n%int64(h.slots))*h.chunk:][:h.length(n)]
}

// give hands the next slot to the DPU, if there is a chunk left: full if this
// side is the source, else empty.
func (h *host) give() error {
	if h.next == h.count {
		return nil
	}
	n := h.next
	h.next++
	if h.src != nil {
		if err := h.src.read(h.slot(n)); err != nil {
			return err
		}
	}
	return h.tell(encodeTurn(kindReady, n-h.behind()))
}

// behind is how far the chunk whose place becomes free is behind the one that
// will be there: a sink's READY names the chunk that it has written.
func (h *host) behind() int64 {
	if h.src != nil {
		return 0
	}
	return int64(h.slots)
}

// take handles a DONE, which come in the order of the chunks.
func (h *host) take(m []byte) (bool, error) {
	n, ok := parseTurn(m)
	if !ok || m[0] != kindDone || n != h.moved || n >= h.next {
		return false, nil
	}
	if h.dst != nil {
		if err := h.dst.write(h.slot(n)); err != nil {
			return true, err
		}
	}
	if err := h.give(); err != nil {
		return true, err
	}
	return true, h.through()
}

func (h *host) lost() error {
	if h.client.State() == core.Running {
		return nil
	}
	return h.gone(h.client.Err())
}

func (h *host) leave(ctx context.Context) error { return h.client.Shutdown(ctx) }

func (h *host) close() (err error) {
	if h.client != nil {
		core.KeepFirst(&err, h.client.Destroy())
	}
	if h.window != nil {
		core.KeepFirst(&err, h.window.Destroy())
	}
	return err
}
