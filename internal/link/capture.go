package link

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/pcapng"
	"github.com/gantry-rdma/gantry/roce"
)

// A Capture writes what passes a link as pcapng: IP packets with nanosecond
// timestamps and direction, which Wireshark and tcpdump read.
//
// IP and UDP header and ICRC are made up as the wire has them, on links without
// a wire too; the IPv4 identification is 0 in each packet, also where the
// kernel numbers them. A packet that did not pass the checks of the link is not
// seen.
//
// Writing happens inside Send and Recv, one write for each call. After the
// first error nothing is written any more, and Close returns it.
type Capture struct {
	Link
	mu    sync.Mutex
	w     io.Writer
	block pcapng.Blocks
	ends  []int // of the packets that are encoded, in block
	flows [2]flows
	err   error
}

// NewCapture writes the frames of l to w, and owns l but not w.
func NewCapture(l Link, w io.Writer) *Capture {
	c := &Capture{Link: l, w: w}
	local := l.Local().AddrPort()
	c.flows[outbound].local = local
	c.flows[inbound].local, c.flows[inbound].incoming = local, true
	c.block.Start()
	c.write(len(c.block.Buf))
	return c
}

// The two directions; also indices of the flows.
const (
	inbound = iota
	outbound
)

var directions = [2]pcapng.Direction{inbound: pcapng.Inbound, outbound: pcapng.Outbound}

// Send writes the frames that the link takes.
func (c *Capture) Send(frames []*frame.Frame) (taken int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Once the link has a frame, it is too late to look at it.
	c.encode(frames, outbound)
	taken = c.Link.Send(frames)
	if taken > 0 {
		c.write(c.ends[taken-1])
	}
	return taken
}

// Recv writes the frames that it returns.
func (c *Capture) Recv(frames []*frame.Frame) (n int) {
	n = c.Link.Recv(frames)
	if n > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.encode(frames[:n], inbound)
		c.write(len(c.block.Buf))
	}
	return n
}

// Close closes the link. It returns an error of the writer as well.
func (c *Capture) Close() error {
	err := c.Link.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(err, c.err)
}

// encode turns frames into blocks.
func (c *Capture) encode(frames []*frame.Frame, direction int) {
	c.block.Buf, c.ends = c.block.Buf[:0], c.ends[:0]
	now := time.Now()
	for _, f := range frames {
		c.packet(f, now, direction)
		c.ends = append(c.ends, len(c.block.Buf))
	}
}

// packet appends the packet of one frame, if it is one.
func (c *Capture) packet(f *frame.Frame, now time.Time, direction int) {
	if int(f.HeadLen) > len(f.Head) || !sound(f) {
		return
	}
	h, _, ok := roce.ParseHeaders(f.Head[:f.HeadLen])
	if o := roce.Opcode(f.Head[0]); !ok && f.HeadLen == roce.BTHLen && !o.Known() {
		var head [roce.HeadSize]byte
		h, ok = roce.Build(&head, o), true
		copy(h.Bytes(), f.Head[:])
	}
	path, sums, known := c.path(f, direction)
	if !known || !ok {
		return
	}
	body := f.Len + int(f.Pad)
	var room [roce.Room]byte
	n := path.Put(&room, h.Len()+body+roce.ICRCLen)
	if n == 0 {
		return
	}
	at := c.block.Begin(now, n+h.Len()+body+roce.ICRCLen)
	c.block.Buf = append(append(c.block.Buf, room[:n]...), h.Bytes()...)
	sum := sums.Start(h, body, roce.Segment(0))
	for _, p := range f.Payload {
		c.block.Buf = append(c.block.Buf, p...)
		sum = sum.Add(p)
	}
	var tail [3 + roce.ICRCLen]byte
	(sum.AddPad(int(f.Pad)) ^ roce.ICRC(f.Damage)).Put((*[roce.ICRCLen]byte)(tail[f.Pad:]))
	c.block.Buf = append(c.block.Buf, tail[:f.Pad+roce.ICRCLen]...)
	c.block.End(at, directions[direction])
}

// path returns what the headers of a frame say, and what begins its ICRC.
func (c *Capture) path(f *frame.Frame, direction int) (p roce.Path, sums *roce.Flow, ok bool) {
	flows := &c.flows[direction]
	to := flows.find(f.Peer)
	if to == nil {
		return p, nil, false
	}
	p = roce.Path{Src: flows.local, Dst: to.addr, TrafficClass: f.TOS, HopLimit: f.TTL, Ident: roce.Segment(0)}
	if f.TTL == 0 {
		p.HopLimit = 64
	}
	if direction == outbound {
		return p, &to.icrc, true
	}
	p.Src, p.Dst = to.addr, flows.local
	if at := f.Local.AddrPort(); at != flows.local { // a multicast group
		p.Dst = at
		group, ok := roce.NewFlow(p.Src, p.Dst)
		return p, &group, ok
	}
	return p, &to.icrc, true
}

// write writes the first n bytes of the blocks.
func (c *Capture) write(n int) {
	if c.err == nil && n > 0 {
		_, c.err = c.w.Write(c.block.Buf[:n])
	}
}
