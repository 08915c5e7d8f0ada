package perf

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// An rcEnd is one end of a measurement: a client, which is number 0, or a
// server. It belongs to one goroutine.
type rcEnd struct {
	test   RCTest
	port   *rcPort
	number uint64
	layout rcLayout

	sends    bool // it posts messages
	receives bool // it posts receives
	echoes   bool // it answers each message with one
	awaits   bool // it has to know of each message that it is done
	target   bool // its memory is written, and it does not hear of it

	lossy bool // messages may be lost: see rclossy.go

	pd       *verbs.PD
	ch       *verbs.CompChannel // with events
	scq, rcq *verbs.CQ
	srq      *sharedReceives // or nil
	ah       *verbs.AH       // where datagrams go
	qkey     uint32          // that they name
	cm       *rcIntroducer   // or nil
	region   []byte          // see rcLayout
	mr       *verbs.MR
	base     uint64 // address of region
	expect   []byte // the pattern of the other end
	flows    []flow
	requests
	far rcHello // what the other end has said

	ready    []int32 // flows that may post, oldest first from head on
	head     int
	wc       [64]verbs.WC
	left     int    // messages that are to complete or to arrive
	fences   int    // the same of fences
	due      int    // messages that may still arrive, or be lost
	came     span   // of those that have arrived in this slice
	signaled int    // completions that are to come from the send queues
	turn     uint64 // slices so far
	each     bool   // verify each message when it arrives

	word     [atomicSize]byte
	verified uint64 // messages whose every byte was compared
	failed   error  // the first failure

	courtesy notify.Courtesy // of who polls

	undo []func() error
}

// An rcHello is what an end has to know about the other.
type rcHello struct {
	Addr netip.Addr `json:"addr"`
	Base uint64     `json:"base"` // address of the memory
	RKey uint32     `json:"rkey"`
	Port uint16     `json:"cm_port,omitempty"` // where a server listens, with the connection manager
	QPs  []rcQP     `json:"qps"`
}

// An rcQP is a queue pair that wants to be connected.
type rcQP struct {
	Num uint32 `json:"qpn"`
	PSN uint32 `json:"psn"` // of its first packet
}

// newEnd makes everything but the connections.
func newEnd(t RCTest, p *rcPort, number uint64) (*rcEnd, error) {
	e := &rcEnd{test: t, port: p, number: number, layout: layoutOf(&t), qkey: rcQKey}
	second := number == 1
	e.echoes = second && t.IsLatency() && !t.oneSided()
	e.sends = !second || t.Both || e.echoes
	e.lossy = t.lossy()
	e.awaits = t.IsLatency() && (t.pulls() || e.lossy)
	e.receives = !t.oneSided() && (second || t.Both || t.IsLatency())
	e.target = (t.Op == "write_bw" || t.IsAtomic()) && (second || t.Both) && !e.lossy
	if err := e.allocate(); err != nil {
		_ = e.close() // the first error says why
		return nil, err
	}
	return e, nil
}

func (e *rcEnd) later(f func() error) { e.undo = append(e.undo, f) }

func (e *rcEnd) close() (err error) {
	for i := len(e.undo) - 1; i >= 0; i-- {
		core.KeepFirst(&err, e.undo[i]())
	}
	e.undo = nil
	return err
}

func (e *rcEnd) allocate() (err error) {
	d, t := e.port.dev, &e.test
	e.region = make([]byte, e.layout.bytes)
	patternOf(e.region[:e.layout.first], t.Seed, e.number)
	e.expect = make([]byte, e.layout.first)
	patternOf(e.expect, t.Seed, 1-e.number)
	e.pd = d.AllocPD()
	e.later(e.pd.Dealloc)
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	if e.mr, err = e.pd.RegMR(e.region, access); err != nil {
		return fmt.Errorf("register %d bytes: %w", len(e.region), err)
	}
	e.later(e.mr.Dereg)
	e.base = e.mr.Addr()
	if t.Events {
		if e.ch, err = d.CreateCompChannel(); err != nil {
			return err
		}
		e.later(e.ch.Close)
	}
	if e.scq, err = e.newCQ(t.SendDepth + 1); err != nil {
		return err
	}
	if e.rcq, err = e.newCQ((t.RecvDepth + t.sharers()) / t.sharers()); err != nil {
		return err
	}
	if t.SRQ {
		if e.srq, err = newSharedReceives(e); err != nil {
			return err
		}
	}
	e.ready = make([]int32, 0, 2*t.QPs)
	e.flows = make([]flow, t.QPs)
	if t.CM {
		e.cm, err = newIntroducer(e)
		return err
	}
	for i := range e.flows {
		if err = e.newFlow(i); err != nil {
			return err
		}
	}
	return nil
}

// newCQ makes a queue with room for all that every queue pair may have posted.
func (e *rcEnd) newCQ(depth int) (*verbs.CQ, error) {
	n := min(depth*e.test.QPs, e.port.dev.Attr().MaxCQE)
	cq, err := e.port.dev.CreateCQ(n, e.ch, nil)
	if err != nil {
		return nil, fmt.Errorf("create a completion queue of %d: %w", n, err)
	}
	e.later(cq.Destroy)
	return cq, nil
}

// newFlow makes a queue pair in state INIT and its work requests.
func (e *rcEnd) newFlow(i int) (err error) {
	t, f := &e.test, &e.flows[i]
	f.psn = rand.Uint32N(1 << 24)
	if f.qp, err = e.pd.CreateQP(e.queuePair()); err != nil {
		return fmt.Errorf("create queue pair %d of %d: %w", i+1, t.QPs, err)
	}
	e.later(f.qp.Destroy)
	access := verbs.AccessRemoteWrite
	if t.Transport == "RC" {
		access |= verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	return f.qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: access, QKey: rcQKey}, services[t.Transport].init)
}

// queuePair returns how the queue pair of a flow is made.
func (e *rcEnd) queuePair() verbs.QPInit {
	t := &e.test
	init := verbs.QPInit{
		Type: services[t.Transport].typ, SendCQ: e.scq, RecvCQ: e.rcq,
		Cap: verbs.QPCap{ // more for fences: that of the slice before may not be acknowledged yet
			MaxSendWR: t.SendDepth + 2, MaxRecvWR: t.RecvDepth + 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: t.Inline,
		},
	}
	if e.srq != nil {
		init.SRQ = e.srq.q
		init.Cap.MaxRecvWR, init.Cap.MaxRecvSGE = 0, 0
	}
	return init
}

// rcQKey is what datagrams of measurements name, but for those whose queue pairs
// the connection manager makes known.
const rcQKey = 0x1ee7

// A service is a transport service as verbs knows it, and what has to be set to
// connect a queue pair.
type service struct {
	typ            verbs.QPType
	init, rtr, rts verbs.AttrMask
}

var services = map[string]service{
	"RC": {verbs.RC, verbs.MaskInit, verbs.MaskRTR, verbs.MaskRTS},
	"UC": {verbs.UC, verbs.MaskInitUC, verbs.MaskRTRUC, verbs.MaskRTSUC},
	"UD": {verbs.UD, verbs.MaskInitUD, verbs.MaskRTRUD, verbs.MaskRTSUD},
}

// hello returns what the other end has to know.
func (e *rcEnd) hello() rcHello {
	h := rcHello{Addr: e.port.dev.Addr(), Base: e.base, RKey: e.mr.RKey()}
	if e.cm != nil {
		h.Port, h.QPs = e.cm.port(), make([]rcQP, len(e.flows)) // it tells the rest itself
		return h
	}
	for i := range e.flows {
		h.QPs = append(h.QPs, rcQP{e.flows[i].qp.Num(), e.flows[i].psn})
	}
	return h
}

// rnrTimer is what a peer waits that finds no receive: 10 us, the least.
const rnrTimer = roce.RNRTimer(1)

// connect takes all queue pairs to RTS and posts the receives. With the
// connection manager it begins to: see introduce.
func (e *rcEnd) connect(far rcHello) error {
	if len(far.QPs) != len(e.flows) {
		return fmt.Errorf("the other end has %d queue pairs, want %d: %w", len(far.QPs), len(e.flows), ErrRCPeer)
	}
	e.far = far
	mtu, _ := roce.MTUOf(e.test.MTU) // checked
	most := e.port.dev.Port().ActiveMTU
	if mtu > most {
		return fmt.Errorf("mtu %d: the network of %v carries %d: %w",
			e.test.MTU, e.port.dev.Addr(), most.Bytes(), ErrRCParameter)
	}
	if e.test.Transport == "UD" {
		ah, err := e.pd.CreateAH(verbs.AHTo(far.Addr))
		if err != nil {
			return fmt.Errorf("address datagrams to %v: %w", far.Addr, err)
		}
		e.later(ah.Destroy)
		e.ah = ah
	}
	if e.cm != nil {
		if e.srq != nil && e.receives {
			e.srq.post(e, 1)
		}
		core.KeepFirst(&e.failed, e.cm.begin(mtu))
		return e.failed
	}
	for i := range e.flows {
		if err := e.connectFlow(i, mtu); err != nil {
			return fmt.Errorf("connect queue pair %d to %v: %w", i, far.Addr, err)
		}
	}
	if e.srq != nil && e.receives {
		e.srq.post(e, 1)
	}
	return e.failed
}

func (e *rcEnd) connectFlow(i int, mtu roce.MTU) error {
	t, f, far := &e.test, &e.flows[i], e.far.QPs[i]
	err := f.qp.Modify(verbs.QPAttr{
		State: verbs.StateRTR, AV: verbs.AVTo(e.far.Addr), PathMTU: mtu, DestQPN: far.Num, RQPSN: roce.PSN(far.PSN),
		MaxDestRdAtomic: uint8(t.Outstanding), MinRNRTimer: rnrTimer,
	}, services[t.Transport].rtr)
	if err != nil {
		return err
	}
	if err = e.equip(i); err != nil {
		return err
	}
	return f.qp.Modify(verbs.QPAttr{
		State: verbs.StateRTS, Timeout: uint8(t.Timeout), RetryCnt: uint8(t.RetryCount), RNRRetry: 7,
		SQPSN: roce.PSN(f.psn), MaxQPRdAtomic: uint8(t.Outstanding),
	}, services[t.Transport].rts)
}

// equip makes the work requests with the first flow, and posts the receives of
// each.
func (e *rcEnd) equip(i int) error {
	if e.wrs == nil {
		e.prepare(e.test.List)
		e.prepareReceives()
	}
	if e.lossy {
		e.flows[i].lossyFlow = newLossyFlow(e.layout.slots)
	}
	if e.srq != nil {
		e.srq.flows[e.flows[i].qp.Num()] = i
	} else if e.receives {
		e.postReceives(i, e.test.RecvDepth)
	}
	return e.failed
}
