package qp

import "github.com/gantry-rdma/gantry/roce"

// A resource is a READ or an atomic that was executed, remembered so that it
// can be answered again (IBTA Vol 1, 9.7.5.1.4).
type resource struct {
	psn     roce.PSN
	packets int    // that the answer has
	op      Op     // OpRead, or which of the atomics and ATOMIC WRITE
	before  uint64 // of an atomic: the answer; of an ATOMIC WRITE it is empty
	memory  target // of a READ: what was asked for
}

// resources is a ring of the newest. As many as the peer may have outstanding
// are enough: with one more it has the answer to the oldest.
type resources struct {
	ring  []resource
	limit int // how much of the ring is in use, MaxDestRdAtomic
	next  int
	count int

	excess   roce.PSN // of a request above the limit, which is to be refused
	exceeded bool     // there is one
}

// add remembers one more, instead of the oldest when there are limit.
func (s *resources) add(x resource) {
	s.ring[s.next] = x
	s.next = (s.next + 1) % s.limit
	s.count = min(s.count+1, s.limit)
}

// resize goes on with another limit, and with the newest.
func (s *resources) resize(limit int) {
	kept := make([]resource, max(limit, len(s.ring)))
	n := min(s.count, limit)
	for i := range n {
		kept[i] = s.ring[(s.next-n+i+s.limit)%s.limit]
	}
	*s = resources{ring: kept, limit: limit, count: n}
	if n < limit {
		s.next = n
	}
}

// find returns the newest that has psn in its answer, or nil.
func (s *resources) find(psn roce.PSN) *resource {
	for i := 1; i <= s.count; i++ {
		x := &s.ring[(s.next-i+s.limit)%s.limit]
		if d := psn.Sub(x.psn); d >= 0 && d < x.packets {
			return x
		}
	}
	return nil
}

// A reading is a READ that is being answered, packet by packet. No other
// request is taken meanwhile.
type reading struct {
	active bool
	again  bool // a duplicate: nothing moves on at its end
	first  bool // no packet of the answer was sent
	psn    roce.PSN
	memory target
}

// beginRead begins to answer the READ in hand. An answer of one packet leaves
// at once.
func (r *Responder) beginRead() {
	p := &r.packet
	h := p.h.RETH()
	memory := target{h.VA(), h.RKey(), h.DMALen()}
	r.saved.add(resource{psn: p.psn, packets: r.packetsOf(memory.left), op: OpRead, memory: memory})
	r.msn++
	r.reading = reading{active: true, first: true, psn: p.psn, memory: memory}
	if r.sendAnswers() {
		r.read(1)
	}
}

// packetsOf returns how many packets an answer of n bytes has.
func (r *Responder) packetsOf(n uint32) int {
	return int(max(1, (uint64(n)+uint64(r.mtu)-1)/uint64(r.mtu)))
}

// read sends up to budget packets of the answer, and reports whether it could
// send more. The key is looked up for each: it may be withdrawn half-way.
func (r *Responder) read(budget int) (more bool) {
	j := &r.reading
	for budget > 0 {
		f := r.env.Frame()
		if f == nil {
			return false
		}
		train := r.train(budget)
		budget -= train
		n := min(train*r.mtu, int(min(j.memory.left, 1<<30)))
		var mem []byte
		if n > 0 {
			var ok bool
			if mem, ok = r.env.Remote(j.memory.rkey, j.memory.va, n, RemoteRead); !ok {
				r.respond(f, roce.RCAck, j.psn, roce.NakRemoteAccess)
				r.env.Emit(f)
				r.fail(StatusRemAccess)
				return false
			}
		}
		last := uint32(n) == j.memory.left
		r.respond(f, readResponseOpcodes[position(j.first, last)], j.psn, roce.AckUnlimited)
		if n > 0 {
			f.Payload = append(f.Payload, mem)
			f.Len, f.Pad = n, uint8(roce.PadFor(n))
			if train > 1 {
				f.Train = uint8(train)
			}
			(*roce.BTH)(f.Head[:]).SetPad(int(f.Pad))
		}
		if last && !j.again {
			r.holdToDepth(j.psn.Next())
		}
		r.env.Emit(f)
		j.first = false
		j.psn = j.psn.Add(train)
		j.memory.va += uint64(n)
		j.memory.left -= uint32(n)
		if last {
			j.active = false
			if !j.again {
				r.expected = j.psn
			}
			return false
		}
	}
	return true
}
