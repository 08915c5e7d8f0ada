package device

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// A Filter selects representors by what they represent. The bits are those of
// DOCA; a sum of them selects what any of them does.
type Filter uint32

// The filters.
const (
	FilterAll      Filter = 0      // every representor
	FilterNet      Filter = 1 << 1 // network functions
	FilterEmulated Filter = 1 << 2 // emulated functions; Gantry has none
)

// A RepInfo describes a representor: the DPU's handle on a function of the
// host. Like an [Info] it never changes.
type RepInfo struct {
	pci   Address
	vuid  string
	iface string
}

// PCI returns the address that the represented function has on the host.
func (r *RepInfo) PCI() Address { return r.pci }

// Equal reports whether addr, in either form of [ParseAddress], is the
// address of the represented function. Text that is no address is
// ErrInvalidValue.
func (r *RepInfo) Equal(addr string) (bool, error) {
	a, err := ParseAddress(addr)
	return err == nil && a == r.pci, err
}

// VUID returns the name that identifies the represented function for the
// vendor's tools: at most 127 bytes.
func (r *RepInfo) VUID() string { return r.vuid }

// FuncType returns the kind of the represented function.
func (r *RepInfo) FuncType() FuncType { return PF }

// Hotplug reports whether the function was plugged in by software at run
// time. Gantry's functions are all there from the start.
func (r *RepInfo) Hotplug() bool { return false }

// Iface returns the name of the representor's own interface.
func (r *RepInfo) Iface() string { return r.iface }

// Representors describes the representors that f selects: none, perhaps.
//
// They exist on the DPU side only, so a device that is no DPU function gives
// ErrInvalidValue, as does a filter with unknown bits. A closed device is
// ErrBadState.
func (d *Device) Representors(f Filter) ([]*RepInfo, error) {
	if d.none() {
		return nil, fmt.Errorf("list representors: the device was never opened: %w", core.ErrInvalidValue)
	}
	if unknown := f &^ (FilterNet | FilterEmulated); unknown != 0 {
		return nil, fmt.Errorf("list representors of %s: filter bits %#x are unknown: %w",
			d.info.ibdev, uint32(unknown), core.ErrInvalidValue)
	}
	if d.info.rep == nil {
		return nil, fmt.Errorf("list representors of %s: representors exist only on the DPU side: %w",
			d.info.ibdev, core.ErrInvalidValue)
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	if d.use.opens == 0 {
		return nil, fmt.Errorf("list representors of %s: the device is not open: %w", d.info.ibdev, core.ErrBadState)
	}
	if f == FilterEmulated {
		return nil, nil
	}
	return []*RepInfo{d.info.rep}, nil
}

// A Representor is an open representor. It is counted and shared like a
// [Device], holds its device while it is open, and is safe for concurrent use.
type Representor struct {
	info *RepInfo
	dev  *Device
	use  usage // guarded by open.mu
}

// OpenRepresentor opens the representor that r describes. r must come from
// [Device.Representors] of this device, or of the same device opened earlier:
// else ErrInvalidValue. A closed device is ErrBadState. Each call needs a
// Close.
func (d *Device) OpenRepresentor(r *RepInfo) (*Representor, error) {
	if d.none() || r == nil {
		return nil, fmt.Errorf("open representor: the device was never opened, or the RepInfo is nil: %w", core.ErrInvalidValue)
	}
	if d.info.rep == nil || *d.info.rep != *r {
		return nil, fmt.Errorf("open representor %s: it is not one of %s: %w",
			r.pci, d.info.ibdev, core.ErrInvalidValue)
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	p := d.reps[r.pci]
	if p == nil {
		if err := d.use.hold(); err != nil {
			return nil, fmt.Errorf("open representor %s of %s: %w", r.pci, d.info.ibdev, err)
		}
		p = &Representor{info: d.info.rep, dev: d}
		d.reps[r.pci] = p
	}
	p.use.opens++
	return p, nil
}

// Info describes the representor.
func (r *Representor) Info() *RepInfo { return r.info }

// Device returns the DPU function that the representor belongs to.
func (r *Representor) Device() *Device { return r.dev }

// Close undoes one OpenRepresentor, with the rules and the errors of
// [Device.Close].
func (r *Representor) Close() error {
	if r.none() {
		return fmt.Errorf("close representor: it was never opened: %w", core.ErrInvalidValue)
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	last, err := r.use.close()
	if err != nil {
		return fmt.Errorf("close representor %s: %w", r.info.pci, err)
	}
	if last {
		delete(r.dev.reps, r.info.pci)
		r.dev.use.drop()
	}
	return nil
}

// Hold keeps the representor open until Drop, for the libraries that use it:
// see [Device.Hold].
func (r *Representor) Hold() error {
	if r.none() {
		return fmt.Errorf("use representor: it was never opened: %w", core.ErrInvalidValue)
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	if err := r.use.hold(); err != nil {
		return fmt.Errorf("use representor %s: %w", r.info.pci, err)
	}
	return nil
}

// Drop undoes one Hold. A Drop without one does nothing.
func (r *Representor) Drop() {
	if r.none() {
		return
	}
	open.mu.Lock()
	defer open.mu.Unlock()
	r.use.drop()
}

// none reports whether r is no representor at all, rather than a closed one.
func (r *Representor) none() bool { return r == nil || r.info == nil }
