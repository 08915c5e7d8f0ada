package stage

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
)

// Size is how many bytes one task copies.
const Size = 1024

// Memory makes the map, of n zeroed bytes, and an inventory of bufs elements.
func (s *Stage) Memory(n, bufs int) (err error) {
	s.region = make([]byte, n)
	if s.Map, err = mem.NewMap(); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return s.Map.SetRange(s.region) },
		func() error { return s.Map.SetAccess(mem.LocalReadWrite) },
		func() error { return s.Map.AddDevice(s.Device) },
		s.Map.Start,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if s.Bufs, err = mem.NewInventory(bufs); err != nil {
		return err
	}
	return s.Bufs.Start()
}

// destroyMemory undoes Memory, also when that stopped half way.
func (s *Stage) destroyMemory() (err error) {
	if s.Bufs != nil {
		core.KeepFirst(&err, s.Bufs.Destroy())
	}
	if s.Map != nil {
		core.KeepFirst(&err, s.Map.Destroy())
	}
	return err
}

// Pair takes the bufs of pair i: a source full of data, each byte i+1, and an
// empty destination of the same size. A task that copies one to the other has
// i+1 in its User for Check.
func (s *Stage) Pair(i int) (src, dst *mem.Buf, err error) {
	base := mem.AddrOf(s.region)
	from, to := base+mem.Addr(2*i*Size), base+mem.Addr((2*i+1)*Size)
	if src, err = s.Bufs.ByData(s.Map, from, Size); err != nil {
		return nil, nil, fmt.Errorf("source %d: %w", i, err)
	}
	if dst, err = s.Bufs.ByAddr(s.Map, to, Size); err != nil {
		_, _ = src.Unref()
		return nil, nil, fmt.Errorf("destination %d: %w", i, err)
	}
	for k := range src.Data() {
		src.Data()[k] = byte(i + 1)
	}
	clear(dst.Head())
	s.Spoil(i, src)
	return src, dst, nil
}

// Bytes returns n bytes of the map from off on.
func (s *Stage) Bytes(off, n int) []byte { return s.Map.Bytes()[off:][:n] }

// Spoil changes the last byte of src if the command line asks for that with
// -spoil i.
func (s *Stage) Spoil(i int, src *mem.Buf) {
	if d := src.Data(); i == s.options.spoil && len(d) > 0 {
		d[len(d)-1] ^= 0xff
		s.Say("source %d: the last byte is wrong, as asked for", i)
	}
}

// Release gives back the bufs of t and then t itself, which must be the
// sample's.
func (s *Stage) Release(t *dma.Memcpy) {
	s.Drop(t.Src(), t.Dst())
	s.Keep(t.Free())
}

// Drop gives back the lists that the bufs are heads of; nil is none.
func (s *Stage) Drop(bufs ...*mem.Buf) {
	for _, b := range bufs {
		if b != nil {
			_, err := b.Unref()
			s.Keep(err)
		}
	}
}

// ReleaseOwned releases those of the tasks that are the sample's: what is left
// after an error.
func (s *Stage) ReleaseOwned(tasks []*dma.Memcpy) {
	for _, t := range tasks {
		if t != nil && t.Owned() {
			s.Release(t)
		}
	}
}
