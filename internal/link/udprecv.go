package link

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/roce"
)

const (
	// framesPerBuffer is how many frames the stock has for each buffer: that
	// many packets of 4096 bytes are in one that the kernel filled.
	framesPerBuffer = 16

	recvMessages = 32
	mergedSize   = 64 << 10 // what the kernel merges is no longer than this
	plainSize    = 8 << 10  // one packet, the longest there is
	spareFrames  = 64
	keepPayload  = 192 // up to so many bytes a payload moves into its frame

	// Payloads lie 12 bytes behind an aligned place, their targets are mostly
	// aligned. Go copies so many bytes to an aligned target with an instruction
	// that does 10 GB/s then, and 26 where the target is not aligned: so a few
	// bytes go ahead.
	splitPayload = 2048
	oddBytes     = 4
)

// A receiver takes messages apart into frames. What it hands out comes from a
// stock that was made when the link was opened.
type receiver struct {
	mu    sync.Mutex // Recv against Close
	own   source
	turn  int // what to ask first: see receive
	batch *sys.RecvBatch
	slots [recvMessages]*buffer // where the kernel puts messages; nil: needs one
	spare []*received           // frames that Recv has at hand

	from      *source // of the messages that came
	count, at int     // messages that came, and which one is taken apart
	packets   int     // in those that were taken apart
	average   int     // packets of a message of the last fetch, rounded up
	most      int     // messages to ask for next
	msg       sys.Received
	flow      *flow
	off       int // bytes of the message that are done
	id        int // the identification to expect of the next packet

	left  atomic.Bool // Recv stopped with messages left
	stock stock
	gate  gate // for a receiver that waits for the stock to fill
}

func (r *receiver) init(u *UDP, local netip.AddrPort, c UDPConfig) {
	r.own.init(u.sock, local)
	r.from = &r.own
	r.batch = sys.NewRecvBatch(recvMessages)
	r.gate.init()
	r.average, r.most = 1, 1
	size := mergedSize
	if c.Plain {
		size = plainSize
	}
	r.stock.add(u, c.Buffers, size)
	r.spare = make([]*received, 0, spareFrames)
}

// Recv checks the ICRC of every packet. Frames that come from buffers of the
// link stay as they are until they are given back.
func (u *UDP) Recv(frames []*frame.Frame) (n int) {
	u.lookForRoom()
	r := &u.recv
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.closed.Load() {
		return 0
	}
	more := true
	for n < len(frames) {
		if r.at == r.count {
			// After a fetch that says so the socket is empty, or next to it:
			// looking again would cost a system call.
			if !more || !u.fetch(len(frames)-n, &more) {
				break
			}
		}
		got, ok := u.takeApart(frames[n:])
		n += got
		if !ok {
			break
		}
	}
	if left := r.at < r.count; left != r.left.Load() {
		r.left.Store(left)
	}
	return n
}

// lookForRoom tells whoever waits for it that the socket has room to send.
func (u *UDP) lookForRoom() {
	if !u.blocked.Load() || !u.blocked.Swap(false) {
		return
	}
	u.recv.mu.Lock()
	room := !u.closed.Load() && u.sock.HasRoom()
	u.recv.mu.Unlock()
	if !room {
		u.blocked.Store(true)
		return
	}
	call(&u.room)
}

// fetch asks the kernel for messages that make about so many frames. It reports
// false if there are none, or no buffers. It clears more unless the socket is
// likely to hold others: when it got fewer than it asked for, or asked for one.
//
// What is fetched and not handed out yet grows cold: asking for all there is
// cost a quarter of the speed of large messages. So it asks for no more than
// there is room for, and that only step by step: for one message after a fetch
// that found nothing, then for twice as many each time. The one is mostly all
// there is, and the kernel takes long to find that there is no second one: if
// there is, the caller is told of it as of any other.
func (u *UDP) fetch(frames int, more *bool) bool {
	r := &u.recv
	if r.count > 0 {
		r.average = max((r.packets+r.count-1)/r.count, 1)
	}
	r.packets = 0
	n := r.fill(min((frames+r.average-1)/r.average, r.most))
	if n == 0 {
		u.got.noBuffer++
		return false
	}
	var count int
	count, *more = u.receive(n)
	if r.at, r.count = 0, count; count == 0 {
		r.most = 1
		return false
	}
	*more = *more && r.most > 1 // a fetch of one is full, and still mostly all
	r.most = min(2*r.most, recvMessages)
	u.got.calls++
	r.open()
	return true
}

// fill gives n slots buffers, from the first on, and returns how many have one.
func (r *receiver) fill(n int) int {
	for i, b := range r.slots[:n] {
		if b != nil {
			continue
		}
		if b = r.stock.buffer(); b == nil {
			b = r.later(i)
		}
		if b == nil {
			r.stock.ranOut(i == 0)
			return i
		}
		b.refs.Store(1)
		r.slots[i] = b
		r.batch.Set(i, b.mem)
	}
	return n
}

// later takes the buffer of a slot behind i, or returns nil.
func (r *receiver) later(i int) *buffer {
	for j := i + 1; j < len(r.slots); j++ {
		if b := r.slots[j]; b != nil {
			r.slots[j] = nil
			return b
		}
	}
	return nil
}

// open makes ready to take the next message apart.
func (r *receiver) open() {
	r.msg = r.batch.Got(r.at)
	r.off, r.id = 0, 0
	r.flow = r.from.flows.find(frame.Addr{IP: r.msg.IP, Port: r.msg.Port})
}

// takeApart makes frames of the packets of the open message, and opens the next
// one when it is done. It reports false if the stock of frames is empty.
func (u *UDP) takeApart(frames []*frame.Frame) (n int, ok bool) {
	r := &u.recv
	b, step, bytes := r.slots[r.at], r.step(), 0
	in := int32(0) // frames with their payload in the buffer
	for n < len(frames) && r.off < r.msg.Len {
		if len(r.spare) == 0 && !r.restock() {
			u.got.noBuffer++
			break
		}
		end := min(r.off+step, r.msg.Len)
		f := r.spare[len(r.spare)-1]
		if u.parse(f, b, b.mem[r.off:end]) {
			r.spare = r.spare[:len(r.spare)-1]
			frames[n] = &f.Frame
			n++
			bytes += wireLen(&f.Frame)
			if f.buf != nil {
				in++
			}
		}
		r.off = end
		r.packets++
	}
	if in > 0 {
		b.refs.Add(in) // before anybody has them
	}
	u.got.frames += uint64(n)
	u.got.bytes += uint64(bytes)
	if step < r.msg.Len {
		u.got.merged += uint64(n)
	}
	if r.off < r.msg.Len {
		return n, n == len(frames)
	}
	if r.msg.Len == 0 {
		u.got.length++
	}
	r.done()
	return n, true
}

// step returns the length of the packets in the open message.
func (r *receiver) step() int {
	if r.msg.Segment > 0 {
		return r.msg.Segment
	}
	return max(r.msg.Len, 1)
}

// done ends the open message. Its buffer stays in the slot if no frame needs it.
func (r *receiver) done() {
	if b := r.slots[r.at]; b.refs.Load() > 1 { // else it stays 1: no frame has it
		if b.refs.Add(-1) > 0 {
			r.slots[r.at] = nil
		} else {
			b.refs.Store(1) // the last one came back in between
		}
	}
	if r.at++; r.at < r.count {
		r.open()
	}
}

// parse makes a frame of one packet. It reports false if there is something
// wrong with the packet, and has counted it.
func (u *UDP) parse(f *received, b *buffer, packet []byte) bool {
	r := &u.recv
	p, ok := roce.Parse(packet)
	if !ok {
		p, ok = parseReserved(packet)
	}
	if !ok || r.flow == nil {
		u.got.refuse(packet)
		r.id++
		return false
	}
	next, solved, ok := r.flow.check(p, r.id)
	r.id = next
	if !ok {
		u.got.icrc++
		return false
	}
	if solved {
		u.got.solved++
	}
	f.HeadLen = uint8(copy(f.Head[:], p.Headers.Bytes()))
	f.Pad = uint8(p.BTH().Pad())
	f.Peer, f.Local = r.flow.peer, r.from.local
	f.TOS, f.TTL = r.msg.Header.TOS, r.msg.Header.TTL
	payload := p.Payload()
	f.Len = len(payload)
	switch {
	case f.Len == 0:
	case f.Len <= keepPayload:
		f.Payload = append(f.Payload, f.small[:copy(f.small[:], payload)])
	case f.Len < splitPayload:
		f.Payload = append(f.Payload, payload)
		f.buf = b
	default:
		f.Payload = append(f.Payload, payload[:oddBytes], payload[oddBytes:])
		f.buf = b
	}
	return f.Handed()
}

// parseReserved is roce.Parse for a reserved opcode of a transport that there
// is: a reliable connection has to answer it.
func parseReserved(packet []byte) (p roce.Packet, ok bool) {
	p, ok = roce.ParseReserved(packet)
	return p, ok && offered(p.BTH().Opcode().Transport())
}

// offered reports whether there are queue pairs of a transport.
func offered(t roce.Transport) bool { return t == roce.RC || t == roce.UC || t == roce.UD }

// ready reports that the stock has something again.
func (u *UDP) ready() bool { return u.closed.Load() || !u.recv.stock.empty.Load() }

// Wait parks until a message arrives, or the socket has room that a Send waits
// for; while all buffers are held, until some are given back.
func (u *UDP) Wait() bool {
	switch {
	case u.recv.stock.empty.Load():
		u.recv.gate.await(u)
	case !u.recv.left.Load():
		return u.sock.Wait() && !u.closed.Load()
	}
	return !u.closed.Load()
}
