package shmq

import "sync/atomic"

// The memory of a stream:
//
//	  0  tail: bytes written                              (writer)
//	128  head: bytes read, and messages read << 32        (reader)
//	256  set by a reader that waits for messages
//	384  set by a writer that waits for room
//	512  ring of capacity bytes
//
// A message in the ring is a word with its length, and its bytes, filled up to
// the next word. It may go around the end. All counts are modulo 2^32.
const (
	tailWord   = 0
	headWord   = line / 8
	readerWord = 2 * line / 8
	writerWord = 3 * line / 8
	ringAt     = 4 * line
)

// MaxStream is the largest capacity of a stream in bytes.
const MaxStream = 1 << 30

// StreamLimits are what both ends of a stream must agree on.
type StreamLimits struct {
	Message  int // longest message in bytes
	Messages int // how many may be there, not read yet
	Bytes    int // how many bytes of messages fit; rounded up
}

// capacity returns the size of the ring: room for at least one message of the
// largest size.
func (l StreamLimits) capacity() int {
	n := max(l.Bytes, framed(l.Message))
	return roundUp(min(max(n, 0), MaxStream), 64)
}

// Size returns how many bytes of memory a stream takes.
func (l StreamLimits) Size() int { return ringAt + l.capacity() }

func (l StreamLimits) check() error {
	switch {
	case l.Message < 0 || l.Message > MaxStream/2:
		return violation("messages of up to %d bytes", l.Message)
	case l.Messages < 1 || l.Messages > MaxStream:
		return violation("%d messages", l.Messages)
	case l.Bytes < 0 || l.Bytes > MaxStream:
		return violation("%d bytes of messages", l.Bytes)
	}
	return nil
}

// framed returns how many bytes of the ring a message of n bytes takes.
func framed(n int) int { return 8 + (n+7)&^7 }

// A stream is what both ends know of the memory.
type stream struct {
	tail, head *atomic.Uint64
	reader     Arm
	writer     Arm
	words      []atomic.Uint64 // of the ring
	ring       []byte
	limits     StreamLimits
	broken     error
}

func (s *stream) init(mem []byte, l StreamLimits) error {
	if err := l.check(); err != nil {
		return err
	}
	w, err := words(mem, l.Size())
	if err != nil {
		return err
	}
	s.tail, s.head = &w[tailWord], &w[headWord]
	s.reader, s.writer = Arm{&w[readerWord]}, Arm{&w[writerWord]}
	s.words, s.ring = w[ringAt/8:], mem[ringAt:l.Size()]
	s.limits = l
	return nil
}

// word returns the word of the ring at a position, which is a multiple of 8.
func (s *stream) word(at uint32) *atomic.Uint64 {
	return &s.words[int(at&uint32(len(s.ring)-1))/8]
}

// parts returns the n bytes of the ring behind a position, in two pieces.
func (s *stream) parts(at uint32, n int) (a, b []byte) {
	from := int(at & uint32(len(s.ring)-1))
	if end := from + n; end > len(s.ring) {
		return s.ring[from:], s.ring[:end-len(s.ring)]
	}
	return s.ring[from : from+n], nil
}

// Broken returns the violation that ended this end of the stream, or nil.
func (s *stream) Broken() error { return s.broken }

// A Writer is the end of a stream that messages go into. It belongs to one
// goroutine at a time.
type Writer struct {
	stream
	at       uint32 // bytes written
	read     uint32 // of these, the peer has read so many for certain
	messages uint32 // messages written
	taken    uint32 // of these, the peer has read so many for certain
}

// NewWriter returns the writing end of the stream in mem, which is zero. It
// fails for memory that is too small or not aligned, and for limits that are
// not possible.
func NewWriter(mem []byte, l StreamLimits) (*Writer, error) {
	w := new(Writer)
	return w, w.init(mem, l)
}

// Write copies a message into the stream, and reports whether there was room.
// A message longer than the limit never has any. If it was written, wake the
// peer if Reader says so.
func (w *Writer) Write(p []byte) (ok bool, err error) {
	if ok, err := w.Room(len(p)); !ok {
		return false, err
	}
	w.word(w.at).Store(uint64(len(p)))
	a, b := w.parts(w.at+8, len(p))
	copy(b, p[copy(a, p):])
	w.at += uint32(framed(len(p)))
	w.messages++
	w.tail.Store(uint64(w.at))
	return true, nil
}

// Room reports whether a message of n bytes would be written now.
func (w *Writer) Room(n int) (bool, error) {
	if w.broken != nil || n > w.limits.Message {
		return false, w.broken
	}
	if w.fits(n) {
		return true, nil
	}
	err := w.look()
	return err == nil && w.fits(n), err
}

// Unread returns how many messages the peer has not read.
func (w *Writer) Unread() (int, error) {
	if w.broken != nil {
		return 0, w.broken
	}
	err := w.look()
	return int(w.messages - w.taken), err
}

// Reader is what to take after writing.
func (w *Writer) Reader() Arm { return w.reader }

// Wait is what to set, and to try again after, before waiting for room.
func (w *Writer) Wait() Arm { return w.writer }

// fits reports whether n bytes fit beside what the peer has not read.
func (w *Writer) fits(n int) bool {
	return int(w.messages-w.taken) < w.limits.Messages &&
		int(w.at-w.read)+framed(n) <= len(w.ring)
}

// look learns how much the peer has read.
func (w *Writer) look() error {
	head := w.head.Load()
	read, taken := uint32(head), uint32(head>>32)
	if read-w.read > w.at-w.read || taken-w.taken > w.messages-w.taken || read%8 != 0 {
		w.broken = violation("it read %d bytes in %d messages of %d in %d",
			read-w.read, taken-w.taken, w.at-w.read, w.messages-w.taken)
		return w.broken
	}
	w.read, w.taken = read, taken
	return nil
}

// A Reader is the end of a stream that messages come out of. It belongs to one
// goroutine at a time.
type Reader struct {
	stream
	at       uint32 // bytes read
	written  uint32 // so many are written for certain
	messages uint32 // messages read
}

// NewReader returns the reading end of the stream in mem, which is zero. It
// fails as NewWriter does.
func NewReader(mem []byte, l StreamLimits) (*Reader, error) {
	r := new(Reader)
	return r, r.init(mem, l)
}

// Read copies the next message into p, which has room for the longest one, and
// returns its length; ok is false if there is none. After a message, wake the
// peer if Writer says so.
func (r *Reader) Read(p []byte) (n int, ok bool, err error) {
	if ok, err = r.Ready(); !ok {
		return 0, false, err
	}
	size := r.word(r.at).Load()
	if size > uint64(min(r.limits.Message, len(p))) || framed(int(size)) > int(r.written-r.at) {
		r.broken = violation("a message of %d bytes, with %d written and %d possible", size, r.written-r.at, r.limits.Message)
		return 0, false, r.broken
	}
	n = int(size)
	a, b := r.parts(r.at+8, n)
	copy(p[copy(p, a):], b)
	r.at += uint32(framed(n))
	r.messages++
	r.head.Store(uint64(r.at) | uint64(r.messages)<<32)
	return n, true, nil
}

// Ready reports whether there is a message.
func (r *Reader) Ready() (bool, error) {
	if r.broken != nil {
		return false, r.broken
	}
	if r.at != r.written {
		return true, nil
	}
	tail := r.tail.Load()
	if ahead := uint32(tail) - r.at; tail>>32 != 0 || int(ahead) > len(r.ring) || ahead%8 != 0 {
		r.broken = violation("%d bytes are written of %d", ahead, len(r.ring))
		return false, r.broken
	}
	r.written = uint32(tail)
	return r.at != r.written, nil
}

// Writer is what to take after reading.
func (r *Reader) Writer() Arm { return r.writer }

// Wait is what to set, and to try again after, before waiting for a message.
func (r *Reader) Wait() Arm { return r.reader }
