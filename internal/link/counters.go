package link

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// wireLen returns the bytes of a packet from BTH to before the ICRC.
func wireLen(f *frame.Frame) int { return int(f.HeadLen) + f.Len + int(f.Pad) }

// sentCounters count on the sending side.
type sentCounters struct {
	frames, bytes, merged, calls uint64 // of a UDP link: under the lock of its sender
	dropped, twice, blocked      atomic.Uint64
}

// A pushed says what became of frames that the kernel took.
type pushed struct {
	taken int // those included that were already out
	twice int // were already out, and passed over
	bytes int // in the others
}

func (c *sentCounters) add(p pushed) {
	c.frames += uint64(p.taken - p.twice)
	c.bytes += uint64(p.bytes)
	if p.twice > 0 {
		c.twice.Add(uint64(p.twice))
	}
}

// drop takes frames over and sends them back at once.
func (c *sentCounters) drop(frames []*frame.Frame) {
	for _, f := range frames {
		if !f.Handed() {
			c.twice.Add(1)
			continue
		}
		c.dropped.Add(1)
		f.Back()
	}
}

func (c *sentCounters) read(s *Stats) {
	s.SentFrames, s.SentBytes = c.frames, c.bytes
	s.SentMerged, s.SentCalls = c.merged, c.calls
	s.SentDropped, s.SentTwice = c.dropped.Load(), c.twice.Load()
	s.Blocked = c.blocked.Load()
}

// recvCounters count on the receiving side, under the lock of the receiver.
type recvCounters struct {
	frames, bytes, merged, calls          uint64
	length, version, opcode, icrc, solved uint64
	noBuffer                              uint64
}

// refuse counts a packet that roce.Parse refuses, by the first thing that is
// wrong with it.
func (c *recvCounters) refuse(packet []byte) {
	switch {
	case len(packet) < roce.BTHLen+roce.ICRCLen:
		c.length++
	case (*roce.BTH)(packet).Version() != 0:
		c.version++
	case !(*roce.BTH)(packet).Opcode().Known() && !offered((*roce.BTH)(packet).Opcode().Transport()):
		c.opcode++
	default:
		c.length++
	}
}

func (c *recvCounters) read(s *Stats) {
	s.RecvFrames, s.RecvBytes = c.frames, c.bytes
	s.RecvMerged, s.RecvCalls = c.merged, c.calls
	s.BadLength, s.BadVersion, s.BadOpcode = c.length, c.version, c.opcode
	s.BadICRC, s.Solved, s.NoBuffer = c.icrc, c.solved, c.noBuffer
}
