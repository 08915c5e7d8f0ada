package device

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-rdma/gantry/core"
)

// The addresses, all in domain 0000 as far as interface numbers below 32768
// go, so that the short form finds them:
//
//	03:00.F          DPU function F
//	07:00.F          host function F, the other side of DPU function F
//	80:00.0 and up   the interface with number n: bus 0x80 + n/256,
//	                 slot n/8 mod 32, function n mod 8
const (
	dpuBus   = 0x03
	hostBus  = 0x07
	ifaceBus = 0x80
)

// MaxVirtual is how many virtual DPU functions there can be: as many as one
// PCI slot has functions.
const MaxVirtual = 8

// defaultVirtual is a card with two ports.
const defaultVirtual = 2

// A Config says which devices there are. The zero value is the usual set:
// the machine's interfaces, two DPU functions, and their two host functions.
//
// Names and addresses repeat from run to run. An interface is gantryN, where N
// is its place in the order of interface numbers, so N changes when an
// interface with a lower number comes or goes; its PCI address is made from
// the interface number and does not. Virtual functions are gantry_dpuN and
// gantry_hostN.
type Config struct {
	// Virtual is the number of DPU functions, at most MaxVirtual. 0 means
	// two, and a negative number means none.
	Virtual int
	// Interfaces lists the network interfaces; nil takes the machine's.
	Interfaces func() ([]net.Interface, error)
	// Addrs lists the addresses of one interface; nil asks the machine. An
	// interface whose addresses cannot be read has just vanished, and is
	// left out.
	Addrs func(net.Interface) ([]net.Addr, error)
}

// List describes the devices of the default [Config].
func List() ([]*Info, error) { return Config{}.List() }

// List describes all devices: interfaces by number, then DPU functions, then
// host functions. It fails with ErrInvalidValue when Virtual is too large, and
// with ErrOperatingSystem when the interfaces cannot be listed.
func (c Config) List() ([]*Info, error) {
	if c.Virtual > MaxVirtual {
		return nil, fmt.Errorf("list devices: Virtual is %d, the limit is %d: %w",
			c.Virtual, MaxVirtual, core.ErrInvalidValue)
	}
	infos, err := c.interfaces()
	if err != nil {
		return nil, err
	}
	n := c.Virtual
	if n == 0 {
		n = defaultVirtual
	}
	for f := range n {
		infos = append(infos, dpuFunction(uint8(f)))
	}
	for f := range n {
		infos = append(infos, hostFunction(uint8(f)))
	}
	return infos, nil
}

// interfaces describes one device per network interface.
func (c Config) interfaces() ([]*Info, error) {
	list, addrs := c.Interfaces, c.Addrs
	if list == nil {
		list = net.Interfaces
	}
	if addrs == nil {
		addrs = func(n net.Interface) ([]net.Addr, error) { return n.Addrs() }
	}
	found, err := list()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w: %w", err, core.ErrOperatingSystem)
	}
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b net.Interface) int { return a.Index - b.Index })
	var infos []*Info
	for _, n := range found {
		a, err := addrs(n)
		if err != nil {
			continue
		}
		infos = append(infos, interfaceDevice(n, a, len(infos)))
	}
	return infos, nil
}

// interfaceDevice describes the device of interface n, the place'th in order.
func interfaceDevice(n net.Interface, addrs []net.Addr, place int) *Info {
	i := &Info{
		pci: Address{
			Domain:   uint16(n.Index >> 15),
			Bus:      ifaceBus | uint8(n.Index>>8)&0x7f,
			Slot:     uint8(n.Index>>3) & 31,
			Function: uint8(n.Index) & 7,
		},
		ibdev:     "gantry" + strconv.Itoa(place),
		iface:     n.Name,
		gids:      gidsOf(addrs),
		mtu:       n.MTU,
		activeMTU: activeMTU(n.MTU),
		rate:      linkRate(n.Name),
		features:  FeatureDMA | FeatureSyncEvent,
		vhca:      uint16(n.Index) &^ virtualVHCA,
		up:        n.Flags&net.FlagUp != 0,
	}
	if len(n.HardwareAddr) == len(i.mac) {
		copy(i.mac[:], n.HardwareAddr)
	}
	if i.up && len(i.gids) > 0 {
		i.features |= FeatureRDMA
	}
	return i
}

// virtualVHCA marks the VHCA numbers of virtual functions; interfaces have
// the numbers below.
const virtualVHCA = 0x8000

// dpuFunction describes DPU function f and what it represents.
func dpuFunction(f uint8) *Info {
	i := virtualFunction("gantry_dpu", dpuBus, f)
	i.rep = &RepInfo{
		pci:   Address{Bus: hostBus, Function: f},
		vuid:  fmt.Sprintf("GANTRY0000S0D0F%d", f),
		iface: fmt.Sprintf("pf%dhpf", f),
	}
	return i
}

// hostFunction describes host function f.
func hostFunction(f uint8) *Info { return virtualFunction("gantry_host", hostBus, f) }

// virtualFunction describes function f on bus. Its MAC is of the locally
// administered kind. It has no interface, so its MTU is that of the memory
// it moves data through: the largest.
func virtualFunction(prefix string, bus, f uint8) *Info {
	return &Info{
		pci:       Address{Bus: bus, Function: f},
		ibdev:     prefix + strconv.Itoa(int(f)),
		mac:       [6]byte{0x02, 'g', 'n', 't', bus, f},
		mtu:       4096 + roceHeaders,
		activeMTU: 4096,
		features:  FeatureDMA | FeatureComch | FeatureSyncEvent,
		vhca:      virtualVHCA | uint16(bus)<<8 | uint16(f),
		up:        true,
	}
}

// linkRate asks Linux for the speed of an interface, which it gives in units
// of a million bits per second. Elsewhere, and where there is no such file or
// no speed in it, the answer is 0: not known.
func linkRate(iface string) uint64 {
	if !filepath.IsLocal(iface) {
		return 0 // no interface is called that
	}
	b, err := os.ReadFile("/sys/class/net/" + iface + "/speed")
	if err != nil {
		return 0
	}
	mbit, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0
	}
	return mbit * 1_000_000
}
