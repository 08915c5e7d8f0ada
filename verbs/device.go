package verbs

import (
	"context"
	"fmt"
	"math"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/nic"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// Config says how a device is opened. The zero value is good for one device on
// 127.0.0.1.
type Config struct {
	// Addr is the address of the device: its GID. Over UDP it must be one of
	// this machine, and nobody else may have port 4791 on it. Not valid stands
	// for 127.0.0.1; in a pair for 192.0.2.1 and 192.0.2.2, which no network
	// knows. An IPv6 address that was added a moment ago takes the system up to
	// some hundred milliseconds, for which Open waits.
	Addr netip.Addr

	// Executor runs the device, and the queue pairs that have none of their
	// own. It is not closed with the device. nil: a work queue that the
	// devices of the process share.
	Executor work.Executor

	// MTU is the largest payload of a packet in bytes, 256 to 4096. 0: what
	// the network allows.
	MTU int

	// SocketBuffer is what is asked for as the size of the UDP receive and
	// send buffers, in bytes. 0: a good size.
	SocketBuffer int

	// Frames is how many packets the device may have out beside those that
	// come with its queue pairs. 0: 1024.
	Frames int

	// Wrap may put links around the one that the device has: to inject faults
	// or to capture. It is for tools within this module.
	Wrap func(link.Link) (link.Link, error)
}

// A Device is an RDMA device with one port. Close gives it up.
type Device struct {
	n    *nic.Device
	addr netip.Addr
}

// Open opens a device on a UDP socket of this machine, on port 4791.
func Open(c Config) (*Device, error) {
	if !c.Addr.IsValid() {
		c.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	l, err := link.ListenUDP(link.UDPConfig{Addr: c.Addr, MTU: c.MTU, RecvBuffer: c.SocketBuffer, SendBuffer: c.SocketBuffer})
	if err != nil {
		return nil, fmt.Errorf("open a device on %v: %w", c.Addr, err)
	}
	return open(c, l)
}

// OpenPair opens two devices that are joined through memory: packets change
// hands, and nothing leaves the process. Where neither has an executor, both
// share the default.
//
// With one inline executor, or one work queue, for both, SENDs and WRITEs with
// one scatter entry go without packets over RC and UC, unless Wrap puts something
// around a link (decision 0011). The counters then count the packets of such a
// message, and no acknowledgement.
func OpenPair(a, b Config) (*Device, *Device, error) {
	mtu := a.MTU
	if mtu == 0 || b.MTU != 0 && b.MTU < mtu {
		mtu = b.MTU
	}
	_, inline := a.Executor.(*work.Inline)
	alone := inline && a.Executor == b.Executor && a.Wrap == nil && b.Wrap == nil
	la, lb := link.NewPair(link.PairConfig{A: a.Addr, B: b.Addr, MTU: mtu, Alone: alone})
	da, err := open(a, la)
	if err != nil {
		return nil, nil, fmt.Errorf("first device: %w", err)
	}
	db, err := open(b, lb)
	if err != nil {
		_ = da.Close() // the error that matters is the other
		return nil, nil, fmt.Errorf("second device: %w", err)
	}
	return da, db, nil
}

// open makes a device over a link, which it closes if it cannot.
func open(c Config, l link.Link) (*Device, error) {
	addr := l.Local().AddrPort().Addr()
	if c.Wrap != nil {
		w, err := c.Wrap(l)
		if err != nil {
			_ = l.Close() // nobody uses it
			return nil, err
		}
		l = w
	}
	n, err := nic.Open(nic.Config{Link: l, Executor: c.Executor, Frames: c.Frames})
	if err != nil {
		_ = l.Close() // nobody uses it
		return nil, numbered(err)
	}
	return &Device{n: n, addr: addr}, nil
}

// DeviceAttr is what a device can do.
type DeviceAttr struct {
	MaxQP           int    // queue pairs
	MaxMR           int    // memory regions
	MaxMW           int    // memory windows
	MaxPD           int    // protection domains
	MaxCQ           int    // completion queues
	MaxSRQ          int    // shared receive queues
	MaxSRQWR        int    // receives in one
	MaxSRQSGE       int    // scatter entries in one of these
	MaxQPWR         int    // work requests in a send or a receive queue
	MaxSGE          int    // scatter entries in a work request
	MaxCQE          int    // entries in a completion queue
	MaxInline       int    // bytes of inline data
	MaxQPRdAtom     int    // READs and atomics that a queue pair answers at once
	MaxQPInitRdAtom int    // READs and atomics that a queue pair has outstanding
	MaxMsgSize      uint32 // bytes
	AtomicHCA       bool   // atomics are atomic among all of this device
	PhysPorts       int    // always 1
	PKeys           int    // entries of the partition table
	LocalCAAckDelay uint8  // 4.096 us << that is how late an answer may be
}

// Attr returns what the device can do.
func (d *Device) Attr() DeviceAttr {
	l := d.n.Limits()
	return DeviceAttr{
		MaxQP: l.QP, MaxMR: l.MR, MaxMW: l.MW, MaxPD: 1 << 20, MaxCQ: 1 << 20,
		MaxSRQ: l.SRQ, MaxSRQWR: l.WR, MaxSRQSGE: l.SGE, MaxQPWR: l.WR, MaxSGE: l.SGE,
		MaxCQE: l.CQE, MaxInline: l.Inline, MaxQPRdAtom: l.Atomic, MaxQPInitRdAtom: l.Atomic,
		MaxMsgSize: 1 << 31, AtomicHCA: true, PhysPorts: 1, PKeys: 1, LocalCAAckDelay: 15,
	}
}

// A PortState is whether a port can be used.
type PortState uint8

// The states of a port that there are here.
const (
	PortDown   PortState = 1
	PortActive PortState = 4
)

// PortAttr describes the port.
type PortAttr struct {
	State     PortState // whether it can be used
	MaxMTU    roce.MTU  // the most that there is
	ActiveMTU roce.MTU  // the most that a path MTU may be
	GIDs      int       // entries of the GID table
	PKeys     int       // entries of the partition table
	Ethernet  bool      // the link layer, always true

	// What was dropped for its key, as far as 32 bits count: what a subnet
	// manager would be told with trap 257 and trap 258.
	BadPKeys       uint32 // packets of another partition
	QKeyViolations uint32 // datagrams with another Q_Key
}

// Port returns the attributes of the port, whose number is 1.
func (d *Device) Port() PortAttr {
	mtu, _ := roce.MTUOf(d.n.MTU())
	badPKeys, badQKeys := d.n.Violations()
	return PortAttr{
		State: PortActive, MaxMTU: roce.MTU4096, ActiveMTU: mtu, GIDs: 1, PKeys: 1, Ethernet: true,
		BadPKeys:       uint32(min(badPKeys, math.MaxUint32)),
		QKeyViolations: uint32(min(badQKeys, math.MaxUint32)),
	}
}

// PKey returns an entry of the partition table; 0 is the only one. Its top bit
// says that this is a full member.
func (d *Device) PKey(i int) (uint16, error) {
	if i != 0 {
		return 0, invalid("partition key index %d, want 0", i)
	}
	return nic.Partition, nil
}

// A GID names a port: 16 bytes that hold its IP address, IPv4 as ::ffff:a.b.c.d.
type GID [16]byte

// GIDOf returns the GID of an address.
func GIDOf(a netip.Addr) GID { return a.As16() }

// Addr returns the address that g holds; IPv4 is not mapped.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String returns the address.
func (g GID) String() string { return g.Addr().String() }

// GID returns an entry of the GID table; 0 is the only one.
func (d *Device) GID(i int) (GID, error) {
	if i != 0 {
		return GID{}, invalid("GID index %d, want 0", i)
	}
	return GIDOf(d.addr), nil
}

// Addr returns the address of the device.
func (d *Device) Addr() netip.Addr { return d.addr }

// Executor returns what runs the device.
func (d *Device) Executor() work.Executor { return d.n.Executor() }

// Drive does some of the device's work on the caller and reports whether there
// was any: all there is on an inline executor, one item on a work queue. The
// budget is in packets for each piece of work; 0 stands for a good one.
func (d *Device) Drive(budget int) bool { return d.n.Drive(budget) }

// A Counter is the name of a counter and its value.
type Counter struct {
	Name  string // the kernel's driver's, where it has it
	Value uint64 // only grows
}

// Counters returns what the device has counted: under the names that the
// kernel's driver uses where it has them, and one for each reason for which a
// packet was dropped.
func (d *Device) Counters() []Counter {
	all := d.n.Counters()
	out := make([]Counter, len(all))
	for i, c := range all {
		out[i] = Counter(c)
	}
	return out
}

// Counter returns one counter, or 0 if there is none with that name.
func (d *Device) Counter(name string) uint64 {
	for _, c := range d.n.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}

// NextEvent waits for an asynchronous event. It ends with an error when ctx is
// done or the device is closed. It drives nothing.
func (d *Device) NextEvent(ctx context.Context) (Event, error) {
	e, err := d.n.NextEvent(ctx)
	if err != nil {
		return Event{}, numbered(err)
	}
	return eventOf(e), nil
}

// TryEvent returns the oldest asynchronous event, if there is one.
func (d *Device) TryEvent() (Event, bool) {
	e, ok := d.n.TryEvent()
	if !ok {
		return Event{}, false
	}
	return eventOf(e), true
}

// Close destroys the queue pairs that are left and gives the device up. EBUSY
// says that a peer has not taken the packets into some memory, which must stay.
func (d *Device) Close() error { return numbered(d.n.Close()) }
