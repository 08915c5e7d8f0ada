package shmq

// A Sender claims posted receives and publishes arrivals. It belongs to one
// goroutine at a time: many may share one under a lock.
type Sender struct {
	queue
	slots   int
	memory  uint64 // bytes that the receiver's memory has
	next    uint64 // receives claimed
	seen    uint64 // receives read, at most batch ahead of next
	ahead   [batch]Receive
	arrived uint64 // arrivals published
}

// batch is how many receives are read at a time.
const batch = 8

// A Receive is room that the receiver offers: Length bytes from Off on, inside
// of its memory.
type Receive struct {
	Off    uint64
	Length int
	Slot   int
}

// NewSender returns the sending end of the queue in mem, which the receiver
// made for n receives in memory bytes of memory.
func NewSender(mem []byte, n int, memory uint64) (*Sender, error) {
	s := &Sender{slots: n, memory: memory}
	return s, s.init(mem, n)
}

// Credit reports whether Peek has something, be it a violation.
func (s *Sender) Credit() bool {
	return s.next != s.seen || s.posts[(s.next&s.mask)*postWords].Load()>>48 != s.stale(s.next)&0xffff
}

// Peek returns the receive that is next, and whether there is one. It stays
// next until Claim.
func (s *Sender) Peek() (r Receive, ok bool, err error) {
	if s.next == s.seen && !s.read() {
		return r, false, s.broken
	}
	return s.ahead[s.next%batch], true, nil
}

// read takes over the receives that are posted, a few at a time: each look
// takes cache lines away from the receiver, which is about to write there. It
// reports whether there was one.
func (s *Sender) read() bool {
	for range batch {
		at := s.seen
		entry := s.posts[(at&s.mask)*postWords:][:postWords]
		word := entry[0].Load()
		if word>>48 == s.stale(at)&0xffff || s.broken != nil {
			break
		}
		r, err := s.check(at, word, entry[1].Load())
		if err != nil {
			if at == s.next {
				s.broken = err // else it is found when it is next
			}
			break
		}
		s.ahead[at%batch] = r
		s.seen++
	}
	return s.next != s.seen
}

// check returns what an entry at a position says, if that is possible.
func (s *Sender) check(at, word, off uint64) (Receive, error) {
	seq, slot, n := word>>48, word>>32&0xffff, word&0xffffffff
	switch {
	case seq != (at+1)&0xffff:
		return Receive{}, violation("receive %d where %d is next", seq-1, at&0xffff)
	case off > s.memory || n > s.memory-off || n > MaxLength:
		return Receive{}, violation("a receive of %d bytes at %d, in memory of %d", n, off, s.memory)
	case slot >= uint64(s.slots):
		return Receive{}, violation("a receive in slot %d of %d", slot, s.slots)
	}
	return Receive{Off: off, Length: int(n), Slot: int(slot)}, nil
}

// Claim takes the receive that Peek returned.
func (s *Sender) Claim() { s.next++ }

// Arrive publishes that n bytes are in the claimed receive of a slot, from
// sender from, with at most MaxImmData bytes of immediate data. Then wake the
// peer if Receiver says so.
func (s *Sender) Arrive(slot, n int, from uint16, imm []byte) {
	at := s.arrivalAt(s.arrived)
	k := copy(s.bytes[at+32:at+arrivalBytes], imm)
	s.publish(at, slot, n, uint64(from)|uint64(k)<<16)
}

// Void gives a claimed receive back unused. Then wake the peer as after Arrive.
func (s *Sender) Void(slot int) { s.publish(s.arrivalAt(s.arrived), slot, 0, 1<<32) }

func (s *Sender) publish(at, slot, n int, about uint64) {
	s.put(at+8, uint64(n)|uint64(slot)<<32)
	s.put(at+16, about)
	s.arrivals[(s.arrived&s.mask)*arrivalWords].Store(s.arrived + 1)
	s.arrived++
}

// Receiver is what to take after publishing.
func (s *Sender) Receiver() Arm { return s.arrival }

// Wait is what to set, and to look once more after, before waiting for
// receives.
func (s *Sender) Wait() Arm { return s.credit }
