package link

import (
	"net/netip"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A PairConfig says how [NewPair] joins two devices. The zero value is good.
type PairConfig struct {
	// A and B are the addresses of the ends, 192.0.2.1 and 192.0.2.2 if not
	// valid. They are names only: no network knows them. The port is 4791.
	A, B netip.Addr
	// MTU is the largest payload of a packet in bytes: 4096 if 0, otherwise
	// the largest RoCE MTU that is not larger, and at least 256.
	MTU int
	// Depth is how many frames may wait for a receiver, in each direction:
	// 1024 if 0 or less; it is rounded up to a power of two.
	Depth int
	// Alone says that one goroutine at a time uses the pair: all methods of
	// both ends. Nothing is locked then, and nobody is told of frames that came
	// in or of room: whoever sends is the one who looks. Share ends it.
	Alone bool
}

// A Memory is one end of a pair of links through memory.
//
// The receiver gets the sender's own frames and reads the payload where the
// sender has it; Give sends a frame back to its owner. A frame to the end's
// own address comes in again there. A frame to a multicast group goes to each
// end that has joined it. A frame to any other address is dropped, and so is one
// to an end that is closed.
type Memory struct {
	local  frame.Addr
	mtu    int
	peer   *Memory
	in     [2]lane // from the peer, and from this end itself
	gate   gate
	room   atomic.Pointer[func()]
	closed atomic.Bool
	alone  bool
	sent   sentCounters // of what no lane took
	group  membership
}

// NewPair returns the two ends of a link through memory.
func NewPair(c PairConfig) (a, b *Memory) {
	a, b = new(Memory), new(Memory)
	a.local = endAddr(c.A, [4]byte{192, 0, 2, 1})
	b.local = endAddr(c.B, [4]byte{192, 0, 2, 2})
	if c.Depth <= 0 {
		c.Depth = 1024
	}
	a.init(b, c)
	b.init(a, c)
	return a, b
}

func (m *Memory) init(peer *Memory, c PairConfig) {
	m.peer, m.mtu, m.alone = peer, payloadMTU(c.MTU), c.Alone
	m.gate.init()
	for i, from := range [...]*Memory{peer, m} {
		m.in[i].init(c.Depth, c.Alone)
		m.in[i].from, m.in[i].to = from.local, m.local
	}
}

func endAddr(a netip.Addr, otherwise [4]byte) frame.Addr {
	if !a.IsValid() {
		a = netip.AddrFrom4(otherwise)
	}
	return frame.AddrOf(netip.AddrPortFrom(a, roce.Port))
}

// payloadMTU returns the largest RoCE MTU that is at most n bytes, but at least
// 256; 0 or less stands for 4096.
func payloadMTU(n int) int {
	if n <= 0 {
		return roce.MTU4096.Bytes()
	}
	best := roce.MTU256
	for m := best; m.Valid() && m.Bytes() <= n; m++ {
		best = m
	}
	return best.Bytes()
}

// Send hands frames to the end that each is for.
func (m *Memory) Send(frames []*frame.Frame) (taken int) {
	for taken < len(frames) {
		run := sameAs(frames[taken:])
		n := m.sendRun(run)
		taken += n
		if n < len(run) {
			m.sent.blocked.Add(1)
			break
		}
	}
	return taken
}

// sameAs returns the frames at the start that go to the same peer.
func sameAs(frames []*frame.Frame) []*frame.Frame {
	for i, f := range frames[1:] {
		if f.Peer != frames[0].Peer {
			return frames[:i+1]
		}
	}
	return frames
}

// sendRun sends frames that go to one peer.
func (m *Memory) sendRun(run []*frame.Frame) (taken int) {
	to, l := m.route(run[0].Peer)
	if to == nil {
		return m.sendGroup(run)
	}
	return m.sendTo(to, l, run, &l.to)
}

// sendTo sends frames through a lane to the end that it leads to.
func (m *Memory) sendTo(to *Memory, l *lane, run []*frame.Frame, as *frame.Addr) (taken int) {
	taken, open := l.push(run, as)
	if !open {
		m.sent.drop(run)
		return len(run)
	}
	if taken > 0 && !m.alone {
		to.gate.signal()
	}
	return taken
}

// route returns the end that has an address, and the lane that leads there.
// When both ends have the same address it is the other one.
func (m *Memory) route(a frame.Addr) (*Memory, *lane) {
	switch a {
	case m.peer.local:
		return m.peer, &m.peer.in[0]
	case m.local:
		return m, &m.in[1]
	}
	return nil, nil
}

// Recv returns frames of the other end, then those of this one. Frames with
// Damage are dropped here, as an ICRC would have them dropped.
func (m *Memory) Recv(frames []*frame.Frame) (n int) {
	if m.Empty() {
		return 0
	}
	for i, from := range [...]*Memory{m.peer, m} {
		l := &m.in[i]
		for n < len(frames) && !l.empty() {
			got, room := l.pop(frames[n:])
			n += got
			if room {
				call(&from.room)
			}
		}
	}
	return n
}

// Give sends frames back to their owners.
func (m *Memory) Give(frames []*frame.Frame) {
	for _, f := range frames {
		f.Back()
	}
}

func (m *Memory) ready() bool {
	return m.closed.Load() || !m.in[0].empty() || !m.in[1].empty()
}

// Wait lets others run for a moment and then parks until a frame comes. Close
// ends it.
func (m *Memory) Wait() bool {
	m.gate.await(m)
	return !m.closed.Load()
}

// OnReady sets what to call after frames came in.
func (m *Memory) OnReady(f func()) { set(&m.gate.ready, f) }

// OnRoom sets what to call when the other end has made room.
func (m *Memory) OnRoom(f func()) { set(&m.room, f) }

// Local returns the address of this end.
func (m *Memory) Local() frame.Addr { return m.local }

// MTU returns the largest payload of a packet in bytes.
func (m *Memory) MTU() int { return m.mtu }

// Pollable returns no descriptor: use OnReady, or Wait.
func (m *Memory) Pollable() (fd int, ok bool) { return -1, false }

// Trains returns how many packets one frame may stand for at most: see
// [frame.Frame].
func (m *Memory) Trains() int { return trains }

// trains is a message of 64 KiB but for its first and its last packet.
const trains = 14

// Share ends being alone: see [PairConfig]. Nobody uses the pair meanwhile.
func (m *Memory) Share() {
	for _, end := range [...]*Memory{m, m.peer} {
		if end.alone {
			end.alone = false
			end.in[0].share()
			end.in[1].share()
		}
	}
}

// Peer returns the other end.
func (m *Memory) Peer() *Memory { return m.peer }

// Clear reports whether a frame that is sent to the other end now would be the
// next one received there, at once, by whoever asks: the pair is alone, the way
// is open, and nothing is on it.
func (m *Memory) Clear() bool {
	l := &m.peer.in[0]
	return m.alone && !l.closed && l.head == l.tail
}

// Empty reports whether nothing is there to be received.
func (m *Memory) Empty() bool { return m.in[0].empty() && m.in[1].empty() }

// Passed counts a frame that went to the other end while the way was clear, and
// not through Send and Recv.
func (m *Memory) Passed(f *frame.Frame) { m.peer.in[0].passed.count(f) }

// PassedMany counts n packets that went to the other end so, with so many bytes
// of headers and payload.
func (m *Memory) PassedMany(n, bytes int) {
	l := &m.peer.in[0]
	l.lock()
	l.passed.frames += uint64(n)
	l.passed.bytes += uint64(bytes)
	l.unlock()
}

// Stats returns the counters.
func (m *Memory) Stats() Stats {
	var s Stats
	m.sent.read(&s)
	for _, l := range [...]*lane{&m.peer.in[0], &m.in[1]} {
		l.lock()
		s.SentFrames += l.sent.frames + l.passed.frames
		s.SentBytes += l.sent.bytes + l.passed.bytes
		s.SentTwice += l.twice
		l.unlock()
	}
	for i := range m.in {
		l := &m.in[i]
		l.lock()
		s.RecvFrames += l.received.frames + l.passed.frames
		s.RecvBytes += l.received.bytes + l.passed.bytes
		s.BadICRC += l.damaged
		l.unlock()
	}
	return s
}

// Close closes this end alone: the other may go on, and what it sends here is
// dropped. Frames that neither end has received come back.
func (m *Memory) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	m.in[0].close()
	m.in[1].close()
	m.peer.in[0].close()
	m.gate.signal()
	call(&m.peer.room) // what it waits for will never come: let it find out
	return nil
}
