package mem_test

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/mem"
)

// A program on the host lets one on the DPU read its memory. Here both are one
// process; in real life the bytes of the export, and the address, go from one
// to the other.
func ExampleImport() {
	host, err := device.OpenPCI("07:00.0", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer host.Close()
	m, err := mem.NewMap()
	core.KeepFirst(&err, m.Allocate(4096, mem.AllocOptions{Shareable: true}))
	core.KeepFirst(&err, m.SetAccess(mem.LocalReadWrite|mem.PCIReadOnly))
	core.KeepFirst(&err, m.AddDevice(host))
	core.KeepFirst(&err, m.Start())
	copy(m.Bytes(), "hello")
	address, _, _ := m.Range()
	export, e := m.ExportPCI(host)
	core.KeepFirst(&err, e)

	dpu, e := device.OpenPCI("03:00.0", nil)
	core.KeepFirst(&err, e)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dpu.Close()
	i, err := mem.Import(0, nil, export, dpu)
	if err != nil {
		fmt.Println(err)
		return
	}
	inventory, err := mem.NewInventory(1)
	core.KeepFirst(&err, inventory.Start())
	b, e := inventory.ByData(i, address, 5)
	core.KeepFirst(&err, e)
	if err == nil {
		fmt.Printf("%s, %v\n", b.Data(), i.Access())
		_, err = b.Unref()
	}
	core.KeepFirst(&err, i.Destroy())
	core.KeepFirst(&err, m.Destroy())
	if err != nil {
		fmt.Println(err)
	}
	// Output: hello, PCIReadOnly
}
