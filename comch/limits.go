package comch

import (
	"fmt"
	"strings"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// The capabilities of the control path, on every device that has it.
const (
	maxNameLen   = 120      // bytes of a name, and a NUL that only C needs
	maxMessage   = 64 << 10 // bytes of a message
	maxRecvQueue = 8192     // messages that wait for one receiver
	maxSendTasks = 8192     // of one server or client
	maxClients   = 512      // of one server

	defaultMessage   = 4080
	defaultRecvQueue = 1024
)

// streamBytes is how much memory the messages to one receiver take at most,
// unless two of the largest take more. So messages that are large wait for
// room before the receive queue is full.
const streamBytes = 256 << 10

// ServerSupported returns nil when a server can be on the device: a DPU
// function. Else it is an error with core.ErrNotSupported. Like the other
// capability queries it needs no open device.
func ServerSupported(i *device.Info) error {
	if err := supported(i); err != nil {
		return err
	}
	if !i.OnDPU() {
		return fmt.Errorf("comch: %s is no DPU function, which is where servers are: %w", i.IBDev(), core.ErrNotSupported)
	}
	return nil
}

// ClientSupported returns nil when a client can be on the device: a host
// function. Else it is an error with core.ErrNotSupported.
func ClientSupported(i *device.Info) error {
	if err := supported(i); err != nil {
		return err
	}
	if i.OnDPU() {
		return fmt.Errorf("comch: %s is no host function, which is where clients are: %w", i.IBDev(), core.ErrNotSupported)
	}
	return nil
}

func supported(i *device.Info) error {
	switch {
	case i == nil:
		return fmt.Errorf("comch: the device is nil: %w", core.ErrInvalidValue)
	case !i.Supports(device.FeatureComch):
		return fmt.Errorf("comch: %s has no message channel: %w", i.IBDev(), core.ErrNotSupported)
	}
	return nil
}

// MaxNameLen returns how long the name of a server can be in bytes, with the
// NUL that ends it in C: one byte less is left for the name.
func MaxNameLen(i *device.Info) (uint32, error) { return maxNameLen, supported(i) }

// MaxMessage returns how many bytes a control message can have.
func MaxMessage(i *device.Info) (uint32, error) { return maxMessage, supported(i) }

// MaxRecvQueue returns how many messages can wait for their receiver.
func MaxRecvQueue(i *device.Info) (uint32, error) { return maxRecvQueue, supported(i) }

// MaxSendTasks returns how many send tasks a server or client can have.
func MaxSendTasks(i *device.Info) (uint32, error) { return maxSendTasks, supported(i) }

// MaxClients returns how many clients a server can have at a time.
func MaxClients(i *device.Info) (uint32, error) { return maxClients, supported(i) }

// checkName says what is wrong with the name of a server.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("comch: the server's name is empty: %w", core.ErrInvalidValue)
	case len(name) > maxNameLen-1:
		return fmt.Errorf("comch: the server's name has %d bytes, the limit is %d: %w", len(name), maxNameLen-1, core.ErrInvalidValue)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("comch: the server's name %q has a NUL in it: %w", name, core.ErrInvalidValue)
	}
	return nil
}
