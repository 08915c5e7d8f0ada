package syncevent

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/mem"
)

// maxTasks is how many tasks of one kind an event can have.
const maxTasks = 8192

// MaxTasks returns how many tasks of each kind an event can have.
func MaxTasks() int { return maxTasks }

// Supported returns nil when the device can work with events: as publisher and
// as subscriber, by calls and by tasks of every kind. Else it is
// core.ErrNotSupported. Like the other capability queries it needs no open
// device.
func Supported(i *device.Info) error {
	switch {
	case i == nil:
		return fmt.Errorf("sync event: the device is nil: %w", core.ErrInvalidValue)
	case !i.Supports(device.FeatureSyncEvent):
		return fmt.Errorf("sync event: %s has none: %w", i.IBDev(), core.ErrNotSupported)
	}
	return nil
}

// ExportPCISupported returns nil when an event can be exported to another
// process through the device, and imported there.
func ExportPCISupported(i *device.Info) error {
	if err := Supported(i); err != nil {
		return err
	}
	return mem.ExportPCISupported(i)
}

// ExportNetSupported is core.ErrNotSupported: events of other machines are
// not part of this package.
func ExportNetSupported(i *device.Info) error {
	if err := Supported(i); err != nil {
		return err
	}
	return fmt.Errorf("sync event: export to another machine: %w", core.ErrNotSupported)
}
