package shmq

// A Receiver posts receives and takes arrivals. It belongs to one goroutine at
// a time.
type Receiver struct {
	queue
	posted []uint32 // by slot: 1 + the length that was posted, 0 for nothing
	out    int      // how many are posted
	at     uint64   // receives posted
	next   uint64   // arrivals taken
	imm    int      // longest immediate data
}

// An Arrival is a message that came, or a receive that came back.
type Arrival struct {
	Slot   int // which receive it filled
	Length int // bytes written to it
	From   uint16
	Void   bool // nothing came: the sender could not use the receive
	ImmLen int
	Imm    [MaxImmData]byte
}

// NewReceiver returns the receiving end of the queue in mem, which is zero,
// for slots 0 to n-1 and up to imm bytes of immediate data.
func NewReceiver(mem []byte, n, imm int) (*Receiver, error) {
	r := &Receiver{imm: min(imm, MaxImmData)}
	if err := r.init(mem, n); err != nil {
		return nil, err
	}
	r.posted = make([]uint32, n)
	return r, nil
}

// Post offers n bytes at offset off of the receiver's memory, 0 for a receive
// of immediate data only. It reports false for a slot that is posted already or
// does not exist. Then wake the peer if Credit says so.
func (r *Receiver) Post(slot int, off uint64, n int) bool {
	if uint(slot) >= uint(len(r.posted)) || r.posted[slot] != 0 || uint(n) > MaxLength {
		return false
	}
	r.posted[slot] = uint32(n) + 1
	r.out++
	at := r.postAt(r.at)
	r.put(at+8, off)
	r.at++
	r.posts[((r.at-1)&r.mask)*postWords].Store(uint64(n) | uint64(slot)<<32 | r.at<<48)
	return true
}

// Posted returns how many receives are posted and have not arrived.
func (r *Receiver) Posted() int { return r.out }

// Ready reports whether Next has something, be it a violation.
func (r *Receiver) Ready() bool {
	return r.arrivals[(r.next&r.mask)*arrivalWords].Load() != r.stale(r.next)
}

// Next takes the next arrival, and reports whether there was one.
func (r *Receiver) Next(a *Arrival) (ok bool, err error) {
	entry := r.arrivals[(r.next&r.mask)*arrivalWords:][:arrivalWords]
	seq := entry[0].Load()
	if seq == r.stale(r.next) || r.broken != nil {
		return false, r.broken
	}
	w1, w2 := entry[1].Load(), entry[2].Load()
	slot, n := w1>>32, uint32(w1)
	imm := int(w2 >> 16 & 0xffff)
	switch {
	case seq != r.next+1:
		r.broken = violation("arrival %d where %d is next", seq-1, r.next)
	case slot >= uint64(len(r.posted)) || r.posted[slot] == 0:
		r.broken = violation("an arrival in slot %d, which is not posted", slot)
	case n >= r.posted[slot]:
		r.broken = violation("an arrival of %d bytes in a receive of %d", n, r.posted[slot]-1)
	case imm > r.imm:
		r.broken = violation("%d bytes of immediate data, %d are possible", imm, r.imm)
	case w2>>33 != 0:
		r.broken = violation("an arrival with the flags %#x", w2>>32)
	default:
		a.Slot, a.Length, a.From = int(slot), int(n), uint16(w2)
		a.Void, a.ImmLen = w2>>32 != 0, imm
		copy(a.Imm[:imm], r.bytes[r.arrivalAt(r.next)+32:])
		r.posted[slot] = 0
		r.out--
		r.next++
		return true, nil
	}
	return false, r.broken
}

// Credit is what to take after posting.
func (r *Receiver) Credit() Arm { return r.credit }

// Wait is what to set, and to look once more after, before waiting for
// arrivals.
func (r *Receiver) Wait() Arm { return r.arrival }
