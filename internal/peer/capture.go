package peer

import (
	"encoding/binary"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/roce"
)

// A capture writes packets as a pcap file with nanoseconds, each with an IP
// header as its sender made it, but for the IPv4 identification, which is 0.
// What is wrong with a packet is kept.
//
//	+-------+---------+----------+-----+   +---------+-----+-----+-----+
//	| magic | version | no zones | ... |   | seconds | ns  | len | len | IP packet
//	+-------+---------+----------+-----+   +---------+-----+-----+-----+
//
// A nil *capture writes nothing.
type capture struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
	err error
}

const (
	pcapNanoseconds = 0xa1b23c4d
	pcapSnapLen     = 1 << 18
	linkTypeRaw     = 101 // the packet begins with an IP header
)

// newCapture begins a file; without a writer there is none.
func newCapture(w io.Writer) *capture {
	if w == nil {
		return nil
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, pcapNanoseconds)
	b = le.AppendUint32(b, 2|4<<16) // version 2.4
	b = le.AppendUint64(b, 0)       // time zone and accuracy: not used
	b = le.AppendUint32(b, pcapSnapLen)
	b = le.AppendUint32(b, linkTypeRaw)
	c := &capture{w: w}
	_, c.err = w.Write(b)
	return c
}

// packet writes one UDP payload.
func (c *capture) packet(src, dst netip.AddrPort, payload []byte) {
	if c == nil {
		return
	}
	path := roce.Path{Src: src, Dst: dst, HopLimit: 64, Ident: roce.Segment(0)}
	var head [roce.Room]byte
	n := path.Put(&head, len(payload))
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == 0 || c.err != nil {
		return
	}
	now, size := time.Now(), uint32(n+len(payload))
	le := binary.LittleEndian
	b := le.AppendUint32(c.buf[:0], uint32(now.Unix()))
	b = le.AppendUint32(b, uint32(now.Nanosecond()))
	b = le.AppendUint32(le.AppendUint32(b, size), size)
	c.buf = append(append(b, head[:n]...), payload...)
	_, c.err = c.w.Write(c.buf)
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
