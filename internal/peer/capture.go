package peer

import (
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/internal/pcapng"
	"github.com/gantry-rdma/gantry/roce"
)

// A capture writes packets as pcapng, each with an IP header as its sender made
// it, but for the IPv4 identification, which is 0. What is wrong with a packet is
// kept. A nil *capture writes nothing.
type capture struct {
	mu    sync.Mutex
	w     io.Writer
	block pcapng.Blocks
	err   error
}

// newCapture begins a file; without a writer there is none.
func newCapture(w io.Writer) *capture {
	if w == nil {
		return nil
	}
	c := &capture{w: w}
	c.block.Start()
	c.write()
	return c
}

// packet writes one UDP payload.
func (c *capture) packet(src, dst netip.AddrPort, payload []byte, d pcapng.Direction) {
	if c == nil {
		return
	}
	path := roce.Path{Src: src, Dst: dst, HopLimit: 64, Ident: roce.Segment(0)}
	var head [roce.Room]byte
	n := path.Put(&head, len(payload))
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.block.Begin(time.Now(), n+len(payload))
	c.block.Buf = append(append(c.block.Buf, head[:n]...), payload...)
	c.block.End(at, d)
	c.write()
}

// write writes what there is, until the first error.
func (c *capture) write() {
	if c.err == nil {
		_, c.err = c.w.Write(c.block.Buf)
	}
	c.block.Buf = c.block.Buf[:0]
}

// close returns the first error of writing.
func (c *capture) close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
