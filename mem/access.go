package mem

import (
	"fmt"
	"strings"

	"github.com/gantry-rdma/gantry/core"
)

// Access says who may do what with the memory of a map. The bits are DOCA's.
// A device of this process may always read, whatever they say.
type Access uint32

// The rights. A local device is a device of this process, a remote one works
// for another process over the network, and a PCI device for another process
// on the other side of the bus.
const (
	LocalReadOnly      Access = 0      // local devices may read and not write
	LocalReadWrite     Access = 1 << 0 // local devices may read and write
	RDMARead           Access = 1 << 1 // remote devices may read
	RDMAWrite          Access = 1 << 2 // remote devices may write
	RDMAAtomic         Access = 1 << 3 // remote devices may do atomics
	PCIReadOnly        Access = 1 << 4 // the other side may read; excludes PCIReadWrite
	PCIReadWrite       Access = 1 << 5 // the other side may read and write
	PCIRelaxedOrdering Access = 1 << 6 // accesses may be reordered; a hint without effect here
)

// anyWrite are the rights that change memory.
const anyWrite = LocalReadWrite | RDMAWrite | RDMAAtomic | PCIReadWrite

var accessNames = [...]string{
	"LocalReadWrite", "RDMARead", "RDMAWrite", "RDMAAtomic", "PCIReadOnly", "PCIReadWrite", "PCIRelaxedOrdering",
}

// allAccess are the bits that have a name.
const allAccess = Access(1)<<len(accessNames) - 1

// String lists the rights, joined with "|".
func (a Access) String() string {
	if a == LocalReadOnly {
		return "LocalReadOnly"
	}
	var names []string
	for bit, name := range accessNames {
		if a&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	if rest := a &^ allAccess; rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(rest)))
	}
	return strings.Join(names, "|")
}

// check reports what is wrong with a as the rights of a map.
func (a Access) check() error {
	if unknown := a &^ allAccess; unknown != 0 {
		return fmt.Errorf("access %s: bits %#x are unknown: %w", a, uint32(unknown), core.ErrInvalidValue)
	}
	if a&PCIReadOnly != 0 && a&PCIReadWrite != 0 {
		return fmt.Errorf("access %s: PCIReadOnly and PCIReadWrite exclude each other: %w", a, core.ErrInvalidValue)
	}
	return nil
}
