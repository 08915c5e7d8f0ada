package stage

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
)

// supports returns what a device of the sample must be fit for.
func (p *Program) supports() func(*device.Info) error {
	return func(i *device.Info) error {
		if p.Side != Alone && (!i.Supports(device.FeatureComch) || i.OnDPU() != (p.Side == DPU)) {
			return fmt.Errorf("it is no function of this side: %w", core.ErrNotSupported)
		}
		if p.Supports != nil {
			return p.Supports(i)
		}
		return dma.Supported(i)
	}
}

// open opens the device with the asked-for address, or the first that is fit.
func (o *options) open(supports func(*device.Info) error) (*device.Device, error) {
	if o.device != "" {
		return device.OpenPCI(o.device, supports)
	}
	infos, err := device.List()
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		if supports(i) == nil {
			return device.Open(i)
		}
	}
	return nil, fmt.Errorf("none of %d devices is fit for it: %w", len(infos), core.ErrNotFound)
}
