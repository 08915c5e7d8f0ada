package cm

import (
	"fmt"
	"math/rand/v2"

	"github.com/gantry-rdma/gantry/internal/conn"
	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// A ConnParam is what one side of a connection says to the other.
type ConnParam struct {
	// PrivateData goes to the program of the peer: up to 56 bytes with Connect
	// and 196 with Accept; with datagrams 180 and 136.
	PrivateData []byte

	// How many READs and atomics this side answers at once, and how many it has
	// outstanding. More than the device, or the peer, can do is cut; 255 is as
	// much as there can be.
	ResponderResources uint8
	InitiatorDepth     uint8

	FlowControl bool  // told to the peer; it has no effect here
	RetryCount  uint8 // Connect: of both queue pairs, 0 to 7
	RNRRetry    uint8 // of the peer's queue pair, 0 to 7; 7: for ever

	// PathMTU is the largest payload of a packet, of Connect alone. 0: what the
	// port has.
	PathMTU roce.MTU
	// Times are those of Connect alone; the passive side follows them.
	Times Times
}

// Times say how long things may take, as codes of time: 4.096 us << code. A zero
// stands for a good value.
type Times struct {
	Response   uint8 // how soon either side answers a message. 0: 18, about a second
	Retries    uint8 // how often a message is repeated, 1 to 15. 0: 15
	AckTimeout uint8 // of both queue pairs: see verbs.QPAttr.Timeout. 0: 16, a quarter of a second
}

// datagramKey is the Q_Key of the queue pairs of port space UDP.
const datagramKey = 0x01234567

// prepare takes a new queue pair to where it can have receives, and one of
// datagrams to where it can send. The caller holds the lock of the agent.
func (i *ID) prepare(t verbs.QPType) error {
	i.psn = roce.NewPSN(rand.Uint32())
	if t != verbs.UD {
		return i.qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: verbs.AccessRemoteWrite}, verbs.MaskInit)
	}
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.AttrMask
	}{
		{verbs.QPAttr{State: verbs.StateInit, Port: 1, QKey: datagramKey}, verbs.MaskInitUD},
		{verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskRTRUD},
		{verbs.QPAttr{State: verbs.StateRTS, SQPSN: i.psn}, verbs.MaskRTSUD},
	} {
		if err := i.qp.Modify(step.attr, step.mask); err != nil {
			return err
		}
	}
	return nil
}

// side returns what we say of our queue pair.
func (i *ID) side(p *ConnParam) conn.Side {
	most := uint8(min(i.ch.a.dev.Attr().MaxQPRdAtom, 254))
	s := conn.Side{QPN: i.qp.Num(), PSN: i.psn, Resources: min(p.ResponderResources, most), Depth: min(p.InitiatorDepth, most),
		RNRRetry: p.RNRRetry & 7, FlowControl: p.FlowControl}
	if i.transport() == roce.UC {
		s.Resources, s.Depth = 0, 0
	}
	return s
}

// transport returns the transport of the queue pair.
func (i *ID) transport() roce.Transport {
	_, init, err := i.qp.Query()
	if err == nil && init.Type == verbs.UC {
		return roce.UC
	}
	return roce.RC
}

// Connect asks the peer for a connection, or, with datagrams, for its queue
// pair. Established follows; or Rejected or Unreachable, after which the ID may
// try again; or ConnectError.
func (i *ID) Connect(p ConnParam) error {
	if err := i.lock("connect", routed); err != nil {
		return err
	}
	a := i.ch.a
	defer a.mu.Unlock()
	if i.qp == nil {
		return invalid("connect an ID without a queue pair")
	}
	call, err := i.call(&p)
	if err != nil {
		return err
	}
	ask := a.machine.Connect
	if i.space == UDP {
		ask = a.machine.Resolve
	} else {
		call.Local = i.side(&p)
		call.Transport = i.transport()
		i.said = call.Local
	}
	c, err := ask(call, instant())
	if err != nil {
		return fmt.Errorf("connect to %v: %w", i.peer, numbered(err, nil))
	}
	i.c, i.phase = c, begun
	a.settle()
	return nil
}

// call returns what every Connect asks for.
func (i *ID) call(p *ConnParam) (*conn.Call, error) {
	port := i.ch.a.dev.Port()
	if p.PathMTU == 0 {
		p.PathMTU = port.ActiveMTU
	}
	t := &p.Times
	for _, x := range []struct {
		v    *uint8
		zero uint8
		most uint8
		name string
	}{
		{&t.Response, 18, 31, "Times.Response"}, {&t.Retries, 15, 15, "Times.Retries"}, {&t.AckTimeout, 16, 31, "Times.AckTimeout"},
		{&p.RetryCount, 0, 7, "RetryCount"}, {&p.RNRRetry, 0, 7, "RNRRetry"},
	} {
		if *x.v > x.most {
			return nil, invalid("%s is %d, and %d at most", x.name, *x.v, x.most)
		}
		if *x.v == 0 {
			*x.v = x.zero
		}
	}
	switch {
	case !p.PathMTU.Valid() || p.PathMTU > port.ActiveMTU:
		return nil, invalid("path MTU %v: the port has %v", p.PathMTU, port.ActiveMTU)
	case i.space != UDP && len(p.PrivateData) > mad.ReqPrivate.Len()-mad.CMALen,
		len(p.PrivateData) > mad.SidrReqPrivate.Len()-mad.CMALen:
		return nil, invalid("%d bytes of private data", len(p.PrivateData))
	}
	var header mad.CMA
	header.Set(i.local, i.peer.Addr())
	return &conn.Call{
		To: i.peer.Addr(), Service: i.service(i.peer.Port()), Private: append(header[:], p.PrivateData...),
		Terms:   conn.Terms{MTU: p.PathMTU, RetryCount: p.RetryCount, AckTimeout: t.AckTimeout},
		Timeout: t.Response, Retries: t.Retries, Owner: i,
	}, nil
}

// Accept accepts the connection that a ConnectRequest asks for. The queue pair
// can receive and send when Accept returns; wait for Established before sending,
// unless the peer speaks first. Rejected or Unreachable may come instead. With
// datagrams no event follows.
func (i *ID) Accept(p ConnParam) error {
	if err := i.lock("accept", asked); err != nil {
		return err
	}
	a := i.ch.a
	defer a.mu.Unlock()
	if i.qp == nil {
		return invalid("accept with an ID without a queue pair")
	}
	now := instant()
	if i.space == UDP {
		err := i.c.Answer(&conn.Service{QPN: i.qp.Num(), QKey: datagramKey, Private: p.PrivateData}, now)
		if err != nil {
			return fmt.Errorf("accept: %w", numbered(err, i.c))
		}
		i.phase = connected
		return nil
	}
	if len(p.PrivateData) > mad.RepPrivate.Len() {
		return invalid("%d bytes of private data, want %d at most", len(p.PrivateData), mad.RepPrivate.Len())
	}
	if i.transport() != i.c.Terms().Transport {
		return invalid("the peer asks for transport %v", i.c.Terms().Transport)
	}
	i.said = i.side(&p)
	i.said.Depth = min(i.said.Depth, i.c.Remote().Resources)
	i.said.Resources = min(i.said.Resources, i.c.Remote().Depth)
	if err := i.ready(i.c.Remote().RNRRetry); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	delay := a.dev.Attr().LocalCAAckDelay
	if err := i.c.Accept(&conn.Answer{Local: i.said, AckDelay: delay, Private: p.PrivateData}, now); err != nil {
		i.fail()
		return fmt.Errorf("accept: %w", numbered(err, i.c))
	}
	i.phase = begun
	a.settle()
	return nil
}

// rnrTimer is what a peer waits when no receive is posted, as a code: 0.64 ms.
const rnrTimer = 12

// ready takes the queue pair to RTR and RTS, with what both sides said. The
// caller holds the lock of the agent.
func (i *ID) ready(rnrRetry uint8) error {
	there, terms := i.c.Remote(), i.c.Terms()
	access := verbs.AccessRemoteWrite
	if i.said.Resources > 0 {
		access |= verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	rtr := verbs.QPAttr{
		State: verbs.StateRTR, AV: verbs.AVTo(i.peer.Addr()), PathMTU: terms.MTU, DestQPN: there.QPN, RQPSN: i.said.PSN,
		MaxDestRdAtomic: i.said.Resources, MinRNRTimer: rnrTimer, Access: access,
	}
	rts := verbs.QPAttr{
		State: verbs.StateRTS, Timeout: terms.AckTimeout, RetryCnt: terms.RetryCount, RNRRetry: rnrRetry, SQPSN: there.PSN,
		MaxQPRdAtomic: min(i.said.Depth, there.Resources),
	}
	toRTR, toRTS := verbs.MaskRTR|verbs.AttrAccess, verbs.MaskRTS
	if terms.Transport == roce.UC {
		toRTR, toRTS = verbs.MaskRTRUC|verbs.AttrAccess, verbs.MaskRTSUC
	}
	if err := i.qp.Modify(rtr, toRTR); err != nil {
		return fmt.Errorf("queue pair to RTR: %w", err)
	}
	if err := i.qp.Modify(rts, toRTS); err != nil {
		return fmt.Errorf("queue pair to RTS: %w", err)
	}
	return nil
}

// fail takes the queue pair of a connection to ERR. The caller holds the lock of
// the agent.
func (i *ID) fail() {
	if i.qp != nil && i.space != UDP && i.qp.State() != verbs.StateReset {
		_ = i.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) // every state allows it; it may be destroyed
	}
}

// Reject refuses what a ConnectRequest asks for. The private data, up to 148
// bytes, goes to the program of the peer; with datagrams up to 136. No event
// follows.
func (i *ID) Reject(private []byte) error {
	if err := i.lock("reject", asked); err != nil {
		return err
	}
	defer i.ch.a.mu.Unlock()
	var err error
	if i.space == UDP {
		err = i.c.Answer(&conn.Service{Status: mad.SidrRejected, Private: private}, instant())
	} else {
		err = i.c.Reject(mad.RejConsumer, nil, private, instant())
	}
	if err != nil {
		return fmt.Errorf("reject: %w", numbered(err, i.c))
	}
	i.phase = over
	i.ch.a.settle()
	return nil
}

// Disconnect ends the connection: the queue pair goes to ERR, and the peer is
// told. Disconnected follows. A connection that is over already stays so, and no
// event follows.
func (i *ID) Disconnect() error {
	if err := i.lock("disconnect", begun, connected, over); err != nil {
		return err
	}
	a := i.ch.a
	defer a.mu.Unlock()
	if i.space == UDP {
		return invalid("disconnect an ID of datagrams")
	}
	if i.phase == over {
		return nil
	}
	if i.c.State() != conn.Established && i.c.State() != conn.RepSent {
		return invalid("disconnect a connection in state %v", i.c.State())
	}
	i.fail()
	i.phase = over
	var err error
	if i.c.State() == conn.RepSent {
		err = i.c.Reject(mad.RejConsumer, nil, nil, instant())
		i.ch.push(Event{Type: Disconnected, ID: i})
	} else {
		err = i.c.Disconnect(nil, instant())
	}
	a.settle()
	return numbered(err, i.c)
}

// NotifyEstablished tells an accepted connection that data has come, as the
// asynchronous event COMM_EST of its queue pair says: then it stands, even if
// the last message of its set-up was lost. Established follows, unless it did
// before.
func (i *ID) NotifyEstablished() error {
	if err := i.lock("notify", begun, connected); err != nil {
		return err
	}
	defer i.ch.a.mu.Unlock()
	if i.phase == connected || i.space == UDP {
		return nil
	}
	err := i.c.Established()
	i.ch.a.settle()
	return numbered(err, i.c)
}
