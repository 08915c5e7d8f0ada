package dma

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/mem"
)

// A plan is what there is to know of a task before it is copied: how much, how,
// or why not.
type plan struct {
	size     int   // bytes to copy
	parts    int32 // how many lanes may share the work
	faulting bool  // memory that may not be there: a mapped file, or of another process
	lent     bool  // the lists are lent, and must be returned
	wrong    wrong
}

// wrong is what is wrong with a task; zero is nothing.
type wrong uint8

const (
	fine wrong = iota
	noSource
	noDestination
	sourceReturned
	destinationReturned
	sourceBusy
	destinationBusy
	sourceEmpty
	sourceTooLong
	sourceTooBig
	destinationTooLong
	destinationTooSmall
	mapStopped
	mapRevoked
	mapOfOtherDevice
	destinationReadOnly
	overlap
)

// wrongText says what is wrong; got and limit are numbers that belong to it.
var wrongText = [...]struct {
	code core.Status
	text string
}{
	noSource:            {core.ErrInvalidValue, "the source is nil"},
	noDestination:       {core.ErrInvalidValue, "the destination is nil"},
	sourceReturned:      {core.ErrInvalidValue, "the source has no references, or is not the head of its list"},
	destinationReturned: {core.ErrInvalidValue, "the destination has no references, or is not the head of its list"},
	sourceBusy:          {core.ErrInvalidValue, "the source is being written by a task in flight"},
	destinationBusy:     {core.ErrInvalidValue, "the destination is in use by a task in flight"},
	sourceEmpty:         {core.ErrInvalidValue, "the source has data length 0 (a buf taken by address has: set its data)"},
	sourceTooLong:       {core.ErrInvalidValue, "the source list has %d elements, %d are possible"},
	sourceTooBig:        {core.ErrInvalidValue, "the source has %d bytes of data, %d are possible"},
	destinationTooLong:  {core.ErrInvalidValue, "the destination list has %d elements, %d are possible"},
	destinationTooSmall: {core.ErrInvalidValue, "%d bytes of data do not fit into the %d bytes of room behind the destination's data (reset its data length to use it again)"},
	mapStopped:          {core.ErrInvalidValue, "a buf is of a map that is not started"},
	mapRevoked:          {core.ErrIOFailed, "a buf is of an imported map whose owner stopped it or ended"},
	mapOfOtherDevice:    {core.ErrInvalidValue, "a buf is of a map without the device of this context"},
	destinationReadOnly: {core.ErrNotPermitted, "the map of the destination does not let the local device write"},
	overlap:             {core.ErrInvalidValue, "the source and the destination overlap"},
}

// A finding is something wrong, with its numbers.
type finding struct {
	wrong      wrong
	got, limit int
}

// err returns the finding as an error for the caller of TrySubmit.
func (f finding) err() error {
	if f.wrong == fine {
		return nil
	}
	w := wrongText[f.wrong]
	if f.limit == 0 {
		return fmt.Errorf("dma memcpy: %s: %w", w.text, w.code)
	}
	return fmt.Errorf("dma memcpy: "+w.text+": %w", f.got, f.limit, w.code)
}

// lend takes the lists of t for the time it is in flight.
func (t *Memcpy) lend() finding {
	switch {
	case t.src == nil:
		return finding{wrong: noSource}
	case t.dst == nil:
		return finding{wrong: noDestination}
	}
	if err := t.src.Lend(); err != nil {
		return notLent(t.src, err, sourceBusy, sourceReturned)
	}
	if err := t.dst.LendToWrite(); err != nil {
		t.src.Return()
		if t.dst == t.src {
			return finding{wrong: overlap}
		}
		return notLent(t.dst, err, destinationBusy, destinationReturned)
	}
	t.plan.lent = true
	return finding{}
}

// notLent says why b was not lent.
func notLent(b *mem.Buf, err error, busy, returned wrong) finding {
	switch {
	case err == core.ErrInUse:
		return finding{wrong: busy}
	case err == core.ErrIOFailed:
		return finding{wrong: mapRevoked}
	case b.Refs() > 0 && !b.Map().Started():
		return finding{wrong: mapStopped}
	}
	return finding{wrong: returned}
}

// giveBack ends the loan.
func (t *Memcpy) giveBack() {
	if t.plan.lent {
		t.plan.lent = false
		t.src.Return()
		t.dst.Return()
	}
}

// make fills in the plan of t, whose lists are lent, and finds what is wrong.
func (p *plan) make(t *Memcpy, dev *device.Device) finding {
	size, _, f := p.side(t.src, dev, sourceTooLong)
	if f.wrong != fine {
		return f
	}
	_, room, f := p.side(t.dst, dev, destinationTooLong)
	switch {
	case f.wrong != fine:
		return f
	case size == 0:
		return finding{wrong: sourceEmpty}
	case size > maxBufSize:
		return finding{sourceTooBig, size, maxBufSize}
	case size > room:
		return finding{wrong: destinationTooSmall, got: size, limit: room}
	}
	p.size = size
	return p.destination(t, size)
}

// side walks one list and adds up its data and its room.
func (p *plan) side(list *mem.Buf, dev *device.Device, tooLong wrong) (data, room int, f finding) {
	var known *mem.Map
	n := 0
	for b := list; b != nil; b = b.Next() {
		n++
		data += b.DataLen()
		room += b.Tail()
		m := b.Map()
		if m == known {
			continue
		}
		switch {
		case !m.Started():
			if m.Revoked() { // asked second: it may be revoked just now
				return 0, 0, finding{wrong: mapRevoked}
			}
			return 0, 0, finding{wrong: mapStopped}
		case !m.HasDevice(dev):
			return 0, 0, finding{wrong: mapOfOtherDevice}
		}
		p.faulting = p.faulting || m.Faulting()
		known = m
	}
	if n > maxBufListLen {
		return 0, 0, finding{tooLong, n, maxBufListLen}
	}
	return data, room, finding{}
}

// destination checks the size bytes of the destination that will be written.
func (p *plan) destination(t *Memcpy, size int) finding {
	for b := t.dst; b != nil && size > 0; b = b.Next() {
		if b.Map().Access()&(mem.LocalReadWrite|mem.PCIReadWrite) == 0 {
			return finding{wrong: destinationReadOnly}
		}
		w := b.TailBytes()
		w = w[:min(len(w), size)]
		size -= len(w)
		for s := t.src; s != nil; s = s.Next() {
			if overlapping(s.Data(), w) {
				return finding{wrong: overlap}
			}
		}
	}
	return finding{}
}

// overlapping reports whether a and b have a byte in common. Maps may share
// memory, so this is about places in this process.
func overlapping(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := mem.AddrOf(a), mem.AddrOf(b)
	return x < y+mem.Addr(len(b)) && y < x+mem.Addr(len(a))
}
