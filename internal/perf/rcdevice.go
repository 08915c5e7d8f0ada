package perf

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// The fabrics.
const (
	FabricMemory = "memory"
	FabricUDP    = "udp"
)

// An RCDevice says what kind of device an end opens.
type RCDevice struct {
	Fabric  string     // FabricMemory within a process, or FabricUDP
	Addr    netip.Addr // of this end; the second one in a process has the next
	Capture io.Writer  // gets the packets of this end as pcapng, or nil
}

// An rcPort is a device with what is needed to run it.
type rcPort struct {
	dev      *verbs.Device
	executor work.Executor
	faulty   *link.Faulty // or nil
	helps    bool         // the polling program works for the executor
	remote   bool         // the other end is another process
}

// newExecutor makes the executor that a test asks for. A program that polls is
// one of the workers, so the queue has one less, but for a queue of one.
func newExecutor(t *RCTest) (x work.Executor, helps bool, err error) {
	workers := t.WorkerCount()
	helps = workers > 1 && !t.Events
	if helps {
		workers--
	}
	x, err = work.Parse(t.Executor, workers)
	return x, helps, err
}

// config returns how a device is opened, for end 0 or 1.
func (p *rcPort) config(t *RCTest, d RCDevice, end uint64) verbs.Config {
	c := verbs.Config{Addr: d.Addr, Executor: p.executor, MTU: t.MTU, SocketBuffer: t.SocketBuffer}
	if d.Capture != nil || t.injects() { // a link that may be wrapped is a slower one
		c.Wrap = func(l link.Link) (link.Link, error) { return p.wrap(l, t, d, end), nil }
	}
	return c
}

// injects reports whether the test has faults injected.
func (t *RCTest) injects() bool {
	f := &t.Faults
	return f.Loss+f.Dup+f.Reorder+f.Corrupt > 0
}

// wrap puts the capture next to the wire: it shows what the faults left over.
func (p *rcPort) wrap(l link.Link, t *RCTest, d RCDevice, end uint64) link.Link {
	if d.Capture != nil {
		l = link.NewCapture(l, d.Capture)
	}
	if f := t.Faults; t.injects() {
		f.Seed += end // the two directions have their own fate
		p.faulty = link.NewFaults(l, f)
		l = p.faulty
	}
	return l
}

// openPort opens a device over UDP, whose other end is another process.
func openPort(t *RCTest, d RCDevice, end uint64) (*rcPort, error) {
	x, helps, err := newExecutor(t)
	if err != nil {
		return nil, err
	}
	p := &rcPort{executor: x, helps: helps, remote: true}
	if p.dev, err = verbs.Open(p.config(t, d, end)); err != nil {
		x.Close()
		return nil, explainOpen(d.Addr, err)
	}
	return p, nil
}

// openPorts opens both devices of a measurement within this process. They
// share the executor.
func openPorts(t *RCTest, d RCDevice) (a, b *rcPort, err error) {
	x, helps, err := newExecutor(t)
	if err != nil {
		return nil, nil, err
	}
	a, b = &rcPort{executor: x, helps: helps}, &rcPort{executor: x, helps: helps}
	far := RCDevice{Fabric: d.Fabric}
	if d.Fabric == FabricMemory {
		d.Addr = netip.Addr{} // the pair has names of its own
		a.dev, b.dev, err = verbs.OpenPair(a.config(t, d, 0), b.config(t, far, 1))
		if err != nil {
			x.Close()
			return nil, nil, err
		}
		return a, b, nil
	}
	far.Addr = d.Addr.Next()
	if a.dev, err = verbs.Open(a.config(t, d, 0)); err != nil {
		x.Close()
		return nil, nil, explainOpen(d.Addr, err)
	}
	if b.dev, err = verbs.Open(b.config(t, far, 1)); err != nil {
		_ = a.dev.Close() // the first error says why
		x.Close()
		return nil, nil, explainOpen(far.Addr, err)
	}
	return a, b, nil
}

// explainOpen says what to do about an address that cannot be had. What was
// asked and found, the device says itself.
func explainOpen(a netip.Addr, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; --addr chooses one", err)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("open a device on %v: %w: this system has no UDP fabric; --fabric memory works everywhere", a, err)
	}
	return err
}

// close gives up the device. The executor may be shared: see closeExecutor.
func (p *rcPort) close() error { return p.dev.Close() }

// closePorts closes devices that share an executor.
func closePorts(ports ...*rcPort) (err error) {
	for _, p := range ports {
		core.KeepFirst(&err, p.close())
	}
	ports[0].executor.Close()
	return err
}

// A traffic is what the counters of devices say about a measurement.
type traffic struct {
	Retransmits uint64 `json:"retransmits"`
	Lost        uint64 `json:"lost"`       // with what overflowed
	Overflow    uint64 `json:"overflow"`   // packets that there was no room for, in a socket or before a queue pair
	NoReceive   uint64 `json:"no_receive"` // messages for which no receive was posted, over UC and UD
}

// lossCounters are the reasons for which a packet that was sent is lost.
var lossCounters = []string{"drop_icrc", "drop_socket_buffer", "drop_backlog"}

func (p *rcPort) traffic() (t traffic) {
	t.Retransmits = p.dev.Counter("completer_retry_err")
	for _, name := range lossCounters {
		t.Lost += p.dev.Counter(name)
	}
	t.Overflow = p.dev.Counter("drop_socket_buffer") + p.dev.Counter("drop_backlog")
	t.NoReceive = p.dev.Counter("drop_no_receive")
	if p.faulty != nil {
		i := p.faulty.Injected()
		t.Lost += i.Lost + i.Overflow
	}
	return t
}

func (t traffic) plus(o traffic) traffic {
	return traffic{t.Retransmits + o.Retransmits, t.Lost + o.Lost, t.Overflow + o.Overflow, t.NoReceive + o.NoReceive}
}

func (t traffic) minus(o traffic) traffic {
	return traffic{t.Retransmits - o.Retransmits, t.Lost - o.Lost, t.Overflow - o.Overflow, t.NoReceive - o.NoReceive}
}
