package datapath

import (
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

// memory is a map that the other process may use, and one buf of it.
type memory struct {
	bytes []byte
	area  *mem.Map
	bufs  *mem.Inventory
}

// open takes n bytes.
func (m *memory) open(p *Path, n int) (err error) {
	if m.area, err = mem.NewMap(); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return m.area.Allocate(n, mem.AllocOptions{Shareable: true}) },
		func() error { return m.area.SetAccess(mem.LocalReadWrite | mem.PCIReadWrite) },
		func() error { return m.area.AddDevice(p.Device) },
		m.area.Start,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	m.bytes = m.area.Bytes()[:n]
	if m.bufs, err = mem.NewInventory(1); err != nil {
		return err
	}
	return m.bufs.Start()
}

// close undoes open, also when that stopped half way.
func (m *memory) close() (err error) {
	if m.bufs != nil {
		core.KeepFirst(&err, m.bufs.Destroy())
	}
	if m.area != nil {
		core.KeepFirst(&err, m.area.Destroy())
	}
	return err
}
