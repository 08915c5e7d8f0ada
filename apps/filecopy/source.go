package filecopy

import (
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/regular"
	"github.com/gantry-rdma/gantry/mem"
)

// segmentBytes is about how much of the source is mapped at a time. Mapping
// costs little beside copying as much, address space is scarce on 32 bits, and
// the pages of a mapping count as memory of the process.
const segmentBytes = 128 << 20

// A source is the file that is copied: its first size bytes.
type source struct {
	file *regular.File
	size int64

	device  *device.Device
	bufs    *mem.Inventory
	chunk   int      // bytes of one task
	each    int64    // bytes of one segment: a whole number of chunks
	segment *mem.Map // the part of the file that the last chunk came from
	first   int64    // where the segment starts in the file
	staging *mem.Map // instead of a segment, where files cannot be mapped
}

// openSource opens a regular file.
func openSource(name string) (*source, error) {
	f, err := regular.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the source: %w", err)
	}
	return &source{file: f, size: f.Size}, nil
}

// prepare gets ready for the tasks of w, which take two bufs each.
func (s *source) prepare(w *window, o Options) error {
	s.device, s.bufs, s.chunk = w.device, w.bufs, w.chunk
	n := o.segment
	if n == 0 {
		n = segmentBytes
	}
	s.each = int64(max(1, n/s.chunk)) * int64(s.chunk)
	if o.unmapped {
		return s.stage()
	}
	return nil
}

// take returns a buf whose data are the n bytes of the file from off on. The
// offsets of successive calls rise in whole chunks. The slot, a number below
// the number of tasks, is whose turn it is.
func (s *source) take(slot int, off int64, n int) (*mem.Buf, error) {
	if s.staging == nil {
		err := s.reach(off)
		if err == nil {
			base, _, _ := s.segment.Range()
			return s.bufs.ByData(s.segment, base+mem.Addr(off-s.first), n)
		}
		if err := s.stage(); err != nil {
			return nil, err
		}
	}
	room := s.staging.Bytes()[slot*s.chunk:][:n]
	if _, err := s.file.ReadAt(room, off); err != nil {
		return nil, s.explain(err)
	}
	return s.bufs.ByData(s.staging, mem.AddrOf(room), n)
}

// give returns a buf, and unmaps its segment if it was the last of an old one.
func (s *source) give(b *mem.Buf) error {
	m := b.Map()
	_, err := b.Unref()
	if m != s.segment && m != s.staging && m.Bufs() == 0 {
		core.KeepFirst(&err, m.Destroy())
	}
	return err
}

// reach makes the segment with the byte off the current one. The one before is
// unmapped when its last buf is given back.
func (s *source) reach(off int64) error {
	if s.segment != nil && off < s.first+s.each {
		return nil
	}
	n := int(min(s.each, s.size-off))
	m, err := newMap(s.device, func(m *mem.Map) error { return m.MapFile(s.file.File, off, n, false) })
	if err != nil {
		return err
	}
	old := s.segment
	s.segment, s.first = m, off
	if old != nil && old.Bufs() == 0 {
		return old.Destroy()
	}
	return nil
}

// stage takes the memory that the file is read into.
func (s *source) stage() (err error) {
	slots := s.bufs.Len() / 2
	s.staging, err = newMap(s.device, func(m *mem.Map) error { return m.Allocate(slots*s.chunk, mem.AllocOptions{}) })
	return err
}

// release unmaps what is mapped. All bufs must have been given back.
func (s *source) release() (err error) {
	for _, m := range []*mem.Map{s.segment, s.staging} {
		if m != nil {
			core.KeepFirst(&err, m.Destroy())
		}
	}
	s.segment, s.staging = nil, nil
	return err
}

// whole says whether the bytes that were there at the start still are.
func (s *source) whole() error {
	if err := s.file.Whole(); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	return nil
}

// explain says why bytes of the source could not be had.
func (s *source) explain(err error) error {
	return fmt.Errorf("the source: %w", s.file.Explain(err))
}

func (s *source) close() error { return s.file.Close() }

// newMap makes a started map of the memory that fill gives it.
func newMap(dev *device.Device, fill func(*mem.Map) error) (*mem.Map, error) {
	m, err := mem.NewMap()
	if err != nil {
		return nil, err
	}
	if err = fill(m); err == nil {
		err = m.AddDevice(dev)
	}
	if err == nil {
		err = m.Start()
	}
	if err != nil {
		return nil, errors.Join(err, m.Destroy())
	}
	return m, nil
}
