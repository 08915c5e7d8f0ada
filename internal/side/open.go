package side

import (
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// Of returns the side that these addresses mean, each of which may be
// empty: only the DPU has representors, and a function is on one side. Without
// both it is the host.
func Of(pci, representor string) Side {
	if representor != "" {
		return DPU
	}
	if d, err := device.OpenPCI(pci, comch.ServerSupported); err == nil {
		_ = d.Close() // it was open for a moment
		return DPU
	}
	return Host
}

// OpenHost opens a function of the host: the one with the address, or the
// first.
func OpenHost(pci string) (*device.Device, error) {
	if pci != "" {
		return device.OpenPCI(pci, comch.ClientSupported)
	}
	infos, err := device.List()
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		if comch.ClientSupported(i) == nil {
			return device.Open(i)
		}
	}
	return nil, fmt.Errorf("no device is a host function: %w", core.ErrNotFound)
}

// OpenDPU opens a function of the DPU and its representor of a host function:
// those with the addresses, or the first ones that belong together.
func OpenDPU(pci, representor string) (*device.Device, *device.Representor, error) {
	infos, err := device.List()
	if err != nil {
		return nil, nil, err
	}
	if pci != "" {
		d, err := device.OpenPCI(pci, comch.ServerSupported)
		if err != nil {
			return nil, nil, err
		}
		rep, err := openRepresentor(d, representor)
		if err != nil {
			return nil, nil, errors.Join(err, d.Close())
		}
		return d, rep, nil
	}
	err = fmt.Errorf("no device is a DPU function: %w", core.ErrNotFound)
	for _, i := range infos {
		if comch.ServerSupported(i) != nil {
			continue
		}
		d, e := device.Open(i)
		if e != nil {
			return nil, nil, e
		}
		rep, e := openRepresentor(d, representor)
		if e == nil {
			return d, rep, nil
		}
		err = errors.Join(e, d.Close())
		if !errors.Is(e, core.ErrNotFound) {
			break
		}
	}
	return nil, nil, err
}

// openRepresentor opens the representor of a host function.
func openRepresentor(d *device.Device, addr string) (*device.Representor, error) {
	infos, err := d.Representors(device.FilterAll)
	if err != nil {
		return nil, err
	}
	for _, r := range infos {
		is := true
		if addr != "" {
			if is, err = r.Equal(addr); err != nil {
				return nil, err
			}
		}
		if is {
			return d.OpenRepresentor(r)
		}
	}
	return nil, fmt.Errorf("%s has no representor of a host function %s: %w", d.Info().IBDev(), addr, core.ErrNotFound)
}
