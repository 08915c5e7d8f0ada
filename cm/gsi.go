package cm

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"time"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// Sizes of queue pair 1.
const (
	gsiReceives = 256
	gsiSends    = 256
	gsiSlot     = roce.GRHLen + mad.Len // of a receive
	fullPolls   = 1000
	gsiQPN      = 1
	gsiQKey     = 0x80010000
)

// A gsi is queue pair 1 of a device: messages come and go.
type gsi struct {
	dev  *verbs.Device
	pd   *verbs.PD
	mr   *verbs.MR
	mem  []byte
	ch   *verbs.CompChannel
	rcq  *verbs.CQ
	scq  *verbs.CQ
	qp   *verbs.QP
	free int // places in the send queue
}

// openGSI takes queue pair 1.
func openGSI(d *verbs.Device) (g *gsi, err error) {
	g = &gsi{dev: d, pd: d.AllocPD(), mem: make([]byte, gsiReceives*gsiSlot), free: gsiSends}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.mr, err = g.pd.RegMR(g.mem, verbs.AccessLocalWrite); err != nil {
		return g, err
	}
	if g.ch, err = d.CreateCompChannel(); err != nil {
		return g, err
	}
	if g.rcq, err = d.CreateCQ(gsiReceives, g.ch, nil); err != nil {
		return g, err
	}
	if g.scq, err = d.CreateCQ(gsiSends, nil, nil); err != nil {
		return g, err
	}
	if g.qp, err = g.pd.CreateQP(verbs.QPInit{
		Type: verbs.GSI, SendCQ: g.scq, RecvCQ: g.rcq, SQSigAll: true,
		Cap: verbs.QPCap{MaxSendWR: gsiSends, MaxRecvWR: gsiReceives, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: mad.Len},
	}); err != nil {
		return g, err
	}
	return g, g.start()
}

// start gets the queue pair ready, with all its receives.
func (g *gsi) start() error {
	if err := g.qp.Modify(verbs.QPAttr{State: verbs.StateInit, QKey: gsiQKey}, verbs.MaskInitGSI); err != nil {
		return err
	}
	for i := range gsiReceives {
		if err := g.post(uint64(i)); err != nil {
			return err
		}
	}
	if err := g.qp.Modify(verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskRTRUD); err != nil {
		return err
	}
	if err := g.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskRTSUD); err != nil {
		return err
	}
	g.rcq.Arm(false)
	return nil
}

// post posts a receive.
func (g *gsi) post(slot uint64) error {
	_, err := g.qp.PostRecv(verbs.RecvWR{ID: slot, SG: []verbs.SGE{g.mr.SGE(int(slot)*gsiSlot, gsiSlot)}})
	return err
}

// wait blocks until something has come, and arms for what comes next.
func (g *gsi) wait(ctx context.Context) error {
	_, err := g.ch.Get(ctx)
	return g.arm(err)
}

// try is wait, without waiting. It drives the device.
func (g *gsi) try() error {
	_, err := g.ch.TryGet()
	if errors.Is(err, verbs.EAGAIN) {
		return nil
	}
	return g.arm(err)
}

// arm asks for the next event. What is there already is polled after it.
func (g *gsi) arm(err error) error {
	if err == nil {
		g.rcq.Ack(1)
		g.rcq.Arm(false)
	}
	return err
}

// receive calls f with each message that is there, and returns how many were
// none.
func (g *gsi) receive(f func(from netip.Addr, m *mad.MAD)) (bad int) {
	var wcs [16]verbs.WC
	for n := g.rcq.Poll(wcs[:]); n > 0; n = g.rcq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			if wc.Status != verbs.WCSuccess {
				continue // flushed
			}
			slot := g.mem[int(wc.ID)*gsiSlot:][:wc.ByteLen]
			from := (*roce.GRH)(slot).Src()
			m, ok := mad.Parse(slot[roce.GRHLen:])
			if ok && wc.SrcQP == gsiQPN {
				f(from.Unmap(), m)
			} else {
				bad++
			}
			_ = g.post(wc.ID) // fails only when the queue pair is gone
		}
	}
	return bad
}

// send sends a message, and reports whether there was room for it.
func (g *gsi) send(to netip.Addr, m *mad.MAD) bool {
	g.reap()
	for range fullPolls { // a burst is soon on its way
		if g.free > 0 {
			break
		}
		runtime.Gosched()
		g.reap()
	}
	if g.free == 0 {
		return false
	}
	ah, err := g.pd.CreateAH(verbs.AHTo(to))
	if err != nil {
		return false
	}
	_, err = g.qp.PostSend(verbs.SendWR{
		Opcode: verbs.WRSend, Flags: verbs.Inline, Data: m[:], AH: ah, RemoteQPN: gsiQPN, RemoteQKey: gsiQKey,
	})
	if err == nil {
		g.free--
	}
	return errors.Join(err, ah.Destroy()) == nil
}

// reap takes the completions of what was sent.
func (g *gsi) reap() {
	var wcs [16]verbs.WC
	for n := g.scq.Poll(wcs[:]); n > 0; n = g.scq.Poll(wcs[:]) {
		g.free += n
	}
}

// drain waits until everything has left, a moment at most. Nobody sends
// meanwhile.
func (g *gsi) drain() {
	for end := time.Now().Add(time.Second); time.Now().Before(end); runtime.Gosched() {
		if g.reap(); g.free == gsiSends {
			return
		}
	}
}

// close gives the queue pair up.
func (g *gsi) close() error {
	var errs []error
	if g.qp != nil {
		errs = append(errs, g.qp.Destroy())
	}
	if g.rcq != nil {
		errs = append(errs, g.rcq.Destroy())
	}
	if g.scq != nil {
		errs = append(errs, g.scq.Destroy())
	}
	if g.ch != nil {
		errs = append(errs, g.ch.Close())
	}
	if g.mr != nil {
		errs = append(errs, g.mr.Dereg())
	}
	return errors.Join(append(errs, g.pd.Dealloc())...)
}
