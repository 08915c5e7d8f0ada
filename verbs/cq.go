package verbs

import (
	"context"

	"github.com/gantry-rdma/gantry/internal/nic"
	"github.com/gantry-rdma/gantry/internal/qp"
)

// A CQ is a completion queue.
type CQ struct {
	d    *Device
	n    *nic.CQ
	user any
}

// CreateCQ makes a queue for at least cqe entries. Its events go to ch, which
// may be nil. The user value comes back with [CQ.User].
func (d *Device) CreateCQ(cqe int, ch *CompChannel, user any) (*CQ, error) {
	var nch *nic.Channel
	if ch != nil {
		if ch.d != d {
			return nil, invalid("completion channel of another device")
		}
		nch = ch.n
	}
	n, err := d.n.NewCQ(cqe, nch)
	if err != nil {
		return nil, numbered(err)
	}
	c := &CQ{d: d, n: n, user: user}
	n.Owner = c
	return c, nil
}

// User returns what CreateCQ was given.
func (c *CQ) User() any { return c.user }

// Cap returns how many entries fit: a power of two.
func (c *CQ) Cap() int { return c.n.Cap() }

// Poll moves up to len(wc) completions, oldest first, and returns how many. It
// drives a device on an inline executor.
func (c *CQ) Poll(wc []WC) int {
	n := c.take(wc)
	if n < len(wc) && c.n.DriveOwn() {
		n += c.take(wc[n:])
	}
	if n == 0 {
		c.n.Rest()
	}
	return n
}

func (c *CQ) take(wc []WC) int {
	a, b := c.n.Take(len(wc))
	n := len(a) + len(b)
	if n == 0 {
		return 0
	}
	for i := range a {
		wc[i].set(&a[i])
	}
	for i := range b {
		wc[len(a)+i].set(&b[i])
	}
	c.n.Done(n)
	return n
}

// Arm asks for an event with the next completion, or only with the next one
// that is solicited or has failed. Poll once more after it: completions that
// are there already raise none.
func (c *CQ) Arm(solicitedOnly bool) { c.n.Arm(solicitedOnly) }

// Ack acknowledges n events that [CompChannel.Get] returned for c.
func (c *CQ) Ack(n int) { c.n.Ack(n) }

// Resize changes how many entries fit. EINVAL: there are more in it.
func (c *CQ) Resize(cqe int) error { return numbered(c.n.Resize(cqe)) }

// Destroy gives the queue up. EBUSY: queue pairs use it, or events of it are
// not acknowledged.
func (c *CQ) Destroy() error { return numbered(c.n.Destroy()) }

// A CompChannel collects the events of completion queues.
type CompChannel struct {
	d *Device
	n *nic.Channel
}

// CreateCompChannel makes a channel.
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	n, err := d.n.NewChannel()
	if err != nil {
		return nil, numbered(err)
	}
	return &CompChannel{d: d, n: n}, nil
}

// FD returns a descriptor that is readable when TryGet should be called, for a
// program's own poll or epoll set. It is not to be read.
func (c *CompChannel) FD() (int, error) {
	fd, err := c.n.FD()
	return fd, numbered(err)
}

// Get waits for the event of a queue that was armed, and returns the queue. It
// parks the goroutine. Each event has to be acknowledged before the queue can
// be destroyed. On an inline executor it drives the device.
func (c *CompChannel) Get(ctx context.Context) (*CQ, error) {
	n, err := c.n.Get(ctx)
	if err != nil {
		return nil, numbered(err)
	}
	return n.Owner.(*CQ), nil
}

// TryGet is Get without the wait. EAGAIN: there is no event.
func (c *CompChannel) TryGet() (*CQ, error) {
	n, err := c.n.TryGet()
	if err != nil {
		return nil, numbered(err)
	}
	if n == nil {
		return nil, EAGAIN
	}
	return n.Owner.(*CQ), nil
}

// Close gives the channel up and ends all waits. EBUSY: completion queues use
// it.
func (c *CompChannel) Close() error { return numbered(c.n.Close()) }

// A WC is a work completion. If Status is not success, only ID, Status and QPN
// mean something.
type WC struct {
	ID      uint64   // of the work request
	Status  WCStatus // how it ended
	Opcode  WCOpcode // what completed
	Flags   WCFlags  // what Imm is
	ByteLen uint32   // bytes received, or read
	Imm     uint32   // immediate data, or the key that was invalidated: see Flags
	QPN     uint32   // the local queue pair
	SrcQP   uint32   // the sender, of receives
}

// wcOpcodes are what verbs call the operations.
var wcOpcodes = [...]WCOpcode{
	qp.OpSend: WCSend, qp.OpSendImm: WCSend, qp.OpSendInv: WCSend,
	qp.OpWrite: WCRDMAWrite, qp.OpWriteImm: WCRDMAWrite, qp.OpRead: WCRDMARead,
	qp.OpCompareSwap: WCCompSwap, qp.OpFetchAdd: WCFetchAdd, qp.OpLocalInv: WCLocalInv,
	qp.OpAtomicWrite: WCAtomicWrite, qp.OpFlush: WCFlush, qp.OpBindMW: WCBindMW,
	qp.OpRecv: WCRecv, qp.OpRecvWriteImm: WCRecvRDMAWithImm,
}

func (w *WC) set(e *qp.CQE) {
	var flags WCFlags
	if e.WithImm {
		flags |= WCWithImm
	}
	if e.WithGRH {
		flags |= WCGRH
	}
	if e.WithInv {
		flags |= WCWithInv
	}
	w.ID, w.Status, w.Opcode, w.Flags = e.ID, WCStatus(e.Status), wcOpcodes[e.Op], flags
	w.ByteLen, w.Imm, w.QPN, w.SrcQP = e.ByteLen, e.Imm, e.QPN, e.SrcQP
}
