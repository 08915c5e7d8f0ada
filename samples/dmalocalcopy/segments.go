package dmalocalcopy

import (
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
)

// The memory of one task, at its place in the map: first the source, then the
// destination. Each is cut into segments of about the same size:
//
//	A text tha|t was cut |into piece|................|................
//	source 0    source 1   source 2  destination 0    destination 1

// layOut makes the memory, and allocates the tasks with their lists.
func (l *local) layOut() error {
	n := len(l.text)
	// One buf more than the lists need, for the overlap.
	if err := l.Memory(2*n*l.tasks, (l.sources+l.destinations)*l.tasks+1); err != nil {
		return err
	}
	l.all = make([]*dma.Memcpy, 0, l.tasks)
	for i := range l.tasks {
		if err := l.addTask(i, 2*n*i); err != nil {
			return fmt.Errorf("task %d: %w", i, err)
		}
	}
	l.Say("%d tasks copy %d bytes each, from %d segments to %d", l.tasks, n, l.sources, l.destinations)
	return nil
}

// addTask allocates task i, whose memory starts at off.
func (l *local) addTask(i, off int) error {
	n := len(l.text)
	copy(l.Bytes(off, n), l.text)
	src, err := l.list(l.Bytes(off, n), l.sources, l.Bufs.ByData)
	if err != nil {
		return err
	}
	l.Spoil(i, src)
	dst, err := l.list(l.Bytes(off+n, n), l.destinations, l.Bufs.ByAddr)
	if err != nil {
		l.Drop(src)
		return err
	}
	t, err := l.dma.AllocMemcpy(src, dst)
	if err != nil {
		l.Drop(src, dst)
		return err
	}
	t.User = uint64(i) + 1
	l.all = append(l.all, t)
	return nil
}

// list cuts b into segments and chains the bufs that get gives for them. One
// reference, to the head, holds the whole list.
func (l *local) list(b []byte, segments int, get func(*mem.Map, mem.Addr, int) (*mem.Buf, error)) (head *mem.Buf, err error) {
	base := mem.AddrOf(b)
	for i := range segments {
		from, to := len(b)*i/segments, len(b)*(i+1)/segments
		next, err := get(l.Map, base+mem.Addr(from), to-from)
		if err != nil {
			l.Drop(head)
			return nil, err
		}
		if head == nil {
			head = next
		} else if err := head.Chain(next); err != nil {
			l.Drop(head, next)
			return nil, err
		}
	}
	return head, nil
}

// refuseOverlap asks for a copy to a place that begins with the last byte of
// the source, and wants it refused. TrySubmit checks that; after Submit the
// task would fail.
func (l *local) refuseOverlap() error {
	t := l.all[0]
	good, last := t.Dst(), t.Src().DataAddr()+mem.Addr(len(l.text)-1)
	bad, err := l.Bufs.ByAddr(l.Map, last, len(l.text))
	if err != nil {
		return err
	}
	l.Keep(t.SetDst(bad))
	err = t.TrySubmit()
	l.Keep(t.SetDst(good))
	l.Drop(bad)
	if !errors.Is(err, core.ErrInvalidValue) {
		return fmt.Errorf("overlapping ranges: got %v, want %w", err, core.ErrInvalidValue)
	}
	l.Say("a copy onto its own source is refused: %v", err)
	return nil
}

// compare puts together what each task has written, segment by segment. The
// task itself has set the data lengths.
func (l *local) compare() error {
	got := make([]byte, 0, len(l.text))
	for i, t := range l.all {
		got = got[:0]
		for b := t.Dst(); b != nil; b = b.Next() {
			got = append(got, b.Data()...)
		}
		if string(got) != l.text && t.Status() == core.Success {
			l.Keep(fmt.Errorf("task %d: copied %q, want %q: %w", i, got, l.text, core.ErrUnexpected))
		}
	}
	l.Say("the last copy reads: %q", got)
	return nil
}
