package device_test

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// The usual way to a device: by address, if it can do what is needed.
func ExampleOpenPCI() {
	d, err := device.OpenPCI("03:00.0", func(i *device.Info) error {
		if !i.Supports(device.FeatureDMA) {
			return core.ErrNotSupported
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	fmt.Println(d.Info().IBDev(), d.Info().PCI())
	// Output: gantry_dpu0 0000:03:00.0
}

// A program on the DPU side finds the host function that it serves.
func ExampleDevice_Representors() {
	d, err := device.OpenPCI("03:00.1", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	reps, err := d.Representors(device.FilterNet)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range reps {
		fmt.Println(r.PCI(), r.FuncType(), r.Iface())
	}
	// Output: 0000:07:00.1 PF pf1hpf
}
