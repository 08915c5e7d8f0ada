package device

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gantry-rdma/gantry/core"
)

// A Device is an open device. All who open one device in a process share one
// Device, and each of them closes it once; it is safe for concurrent use.
type Device struct {
	info *Info
	use  usage                    // guarded by open.mu
	reps map[Address]*Representor // open ones; guarded by open.mu
}

// open holds what is open in this process. Set-up is rare, so one lock for
// all devices and representors keeps their counts consistent with each other.
var open = struct {
	mu      sync.Mutex
	devices map[identity]*Device
}{devices: map[identity]*Device{}}

// An identity tells devices apart. The interface belongs to it because
// interface numbers, and with them addresses, can be given again.
type identity struct {
	pci   Address
	iface string
}

// Open opens the device that i describes. The first call makes the Device;
// further calls return the same one and count. Each call needs a Close.
// A nil or zero Info is ErrInvalidValue.
func Open(i *Info) (*Device, error) {
	if i == nil || i.ibdev == "" {
		return nil, fmt.Errorf("open device: the Info is nil or was not listed: %w", core.ErrInvalidValue)
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	id := identity{i.pci, i.iface}
	d := open.devices[id]
	if d == nil {
		d = &Device{info: i, reps: map[Address]*Representor{}}
		open.devices[id] = d
	}
	d.use.opens++
	return d, nil
}

// OpenPCI opens the first device of the default [Config] that has the address
// addr and that supports accepts. A nil supports accepts every device.
//
// Text that is no address is ErrInvalidValue. Without a match the error is
// ErrNotFound, and it names the devices that exist; if the address matched but
// supports refused, it also matches the error that supports gave.
func OpenPCI(addr string, supports func(*Info) error) (*Device, error) {
	return Config{}.OpenPCI(addr, supports)
}

// OpenPCI is the function OpenPCI over the devices of c.
func (c Config) OpenPCI(addr string, supports func(*Info) error) (*Device, error) {
	want, err := ParseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	infos, err := c.List()
	if err != nil {
		return nil, fmt.Errorf("open device %s: %w", want, err)
	}
	var refused error
	for _, i := range infos {
		if i.pci != want {
			continue
		}
		if supports == nil {
			return Open(i)
		}
		if refused = supports(i); refused == nil {
			return Open(i)
		}
	}
	if refused != nil {
		return nil, fmt.Errorf("open device %s: %w: the one there does not support what is asked: %w",
			want, core.ErrNotFound, refused)
	}
	return nil, fmt.Errorf("open device %s: the devices are %s: %w", want, names(infos), core.ErrNotFound)
}

// names lists devices for an error text.
func names(infos []*Info) string {
	var b strings.Builder
	for n, i := range infos {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(i.pci.String() + " (" + i.ibdev + ")")
	}
	return b.String()
}

// Info describes the device, as it was when it was first opened.
func (d *Device) Info() *Info { return d.info }

// Close undoes one Open. The last Close is refused with ErrInUse while a map,
// a context or an open representor holds the device: the device stays open,
// and Close can be called again. A Close too many is ErrBadState; a nil or zero
// Device is ErrInvalidValue.
func (d *Device) Close() error {
	if d.none() {
		return fmt.Errorf("close device: it was never opened: %w", core.ErrInvalidValue)
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	last, err := d.use.close()
	if err != nil {
		return fmt.Errorf("close device %s: %w", d.info.ibdev, err)
	}
	if last {
		delete(open.devices, identity{d.info.pci, d.info.iface})
	}
	return nil
}

// Hold keeps the device open until Drop. It is for libraries: whatever uses
// the device after the call that was given it, such as a map or a context,
// holds it. A closed device is ErrBadState; a nil or zero Device is
// ErrInvalidValue.
func (d *Device) Hold() error {
	if d.none() {
		return fmt.Errorf("use device: it was never opened: %w", core.ErrInvalidValue)
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	if err := d.use.hold(); err != nil {
		return fmt.Errorf("use device %s: %w", d.info.ibdev, err)
	}
	return nil
}

// Drop undoes one Hold. A Drop without one does nothing.
func (d *Device) Drop() {
	if d.none() {
		return
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	d.use.drop()
}

// none reports whether d is no device at all, rather than a closed one.
func (d *Device) none() bool { return d == nil || d.info == nil }
