package link

import (
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
)

// A buffer holds one message that the kernel handed over: a packet, or several
// that were merged. The receiver counts as one reference while the buffer is in
// one of its slots, and each frame with a payload in it as one more.
type buffer struct {
	mem  []byte
	refs atomic.Int32
}

// A received frame knows its buffer, if its payload is there.
type received struct {
	frame.Frame
	from  *UDP
	buf   *buffer
	small [keepPayload]byte
}

// FrameBack does nothing: Give is the way back.
func (r *received) FrameBack(*frame.Frame) {}

// A stock is what is free. What came back last is used first: it is the most
// likely to be in the cache.
type stock struct {
	mu      sync.Mutex
	frames  []*received
	buffers []*buffer
	empty   atomic.Bool // Recv found nothing, and nothing came back since
}

// add fills the stock of u with n buffers of size bytes, and with frames.
func (s *stock) add(u *UDP, n, size int) {
	mem := make([]byte, n*size)
	for i := range n {
		s.buffers = append(s.buffers, &buffer{mem: mem[i*size : (i+1)*size : (i+1)*size]})
	}
	made := make([]received, n*framesPerBuffer)
	for i := range made {
		f := &made[i]
		f.from, f.Owner, f.Payload = u, f, make([][]byte, 0, 2)
		s.frames = append(s.frames, f)
	}
}

// buffer takes a buffer, or returns nil.
func (s *stock) buffer() *buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.buffers) - 1
	if last < 0 {
		return nil
	}
	b := s.buffers[last]
	s.buffers = s.buffers[:last]
	return b
}

// ranOut notes whether Recv can do nothing until something is given back. It
// has not seen what was given back since it looked: then it will look again.
func (s *stock) ranOut(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.empty.Store(now && len(s.buffers) == 0)
}

// restock takes frames from the stock, and reports false if there are none.
func (r *receiver) restock() bool {
	s := &r.stock
	s.mu.Lock()
	defer s.mu.Unlock()
	left := max(len(s.frames)-cap(r.spare), 0)
	r.spare = append(r.spare, s.frames[left:]...)
	s.frames = s.frames[:left]
	s.empty.Store(len(r.spare) == 0)
	return len(r.spare) > 0
}

// release ends n references to b, which is nil if n is 0. The caller holds mu.
func (s *stock) release(b *buffer, n int32) {
	if n > 0 && b.refs.Add(-n) == 0 {
		s.buffers = append(s.buffers, b)
	}
}

// Give puts frames and buffers back into stock. Frames that are not out, or not
// from this link, are passed over.
func (u *UDP) Give(frames []*frame.Frame) {
	s := &u.recv.stock
	s.mu.Lock()
	var of *buffer // of the frames that were just given back, so many
	var n int32
	for _, f := range frames {
		r, ok := f.Owner.(*received)
		if !ok || r.from != u || !f.Regain() {
			continue
		}
		f.Payload = f.Payload[:0]
		if r.buf != of && r.buf != nil {
			s.release(of, n)
			of, n = r.buf, 0
		}
		if r.buf != nil {
			r.buf = nil
			n++
		}
		s.frames = append(s.frames, r)
	}
	s.release(of, n)
	filled := s.empty.Load()
	if filled {
		s.empty.Store(false)
	}
	s.mu.Unlock()
	if filled {
		u.recv.gate.signal()
	}
}
