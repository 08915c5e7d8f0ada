package verbs

import (
	"github.com/gantry-rdma/gantry/internal/nic"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
)

// Modify changes a queue pair. The mask says which attributes are set; which
// ones a change of state needs and allows is what libibverbs has. On an error
// nothing was changed, except that EBUSY on the way to RESET means: a peer has
// not taken all packets, so call it again.
func (q *QP) Modify(a QPAttr, mask AttrMask) error {
	if err := q.n.Lock(); err != nil {
		return numbered(err)
	}
	defer q.n.Unlock()
	s, draining := q.n.State()
	from := QPState(s)
	to := from
	if mask&AttrState != 0 {
		to = a.State
	}
	if mask&AttrCurState != 0 && a.CurState != from {
		return invalid("queue pair is in %v, not in %v", from, a.CurState)
	}
	if err := allowed(q.typ, from, to, mask); err != nil {
		return err
	}
	if draining && to != StateErr && to != StateReset {
		return invalid("modify to %v while draining", to)
	}
	if err := q.check(&a, mask); err != nil {
		return err
	}
	q.keep(&a, mask)
	return q.move(from, to, mask)
}

// check looks at the values of the attributes.
func (q *QP) check(a *QPAttr, mask AttrMask) error {
	d := q.pd.d
	attr, port := d.Attr(), d.Port()
	switch {
	case mask&AttrAccess != 0 && a.Access&^accessQP != 0:
		return invalid("access %#x", uint32(a.Access))
	case mask&AttrPKeyIndex != 0 && a.PKeyIndex != 0:
		return invalid("partition key index %d, want 0", a.PKeyIndex)
	case mask&AttrPort != 0 && a.Port != 1:
		return invalid("port %d, want 1", a.Port)
	case mask&AttrAV != 0 && a.AV.SGIDIndex != 0:
		return invalid("GID index %d, want 0", a.AV.SGIDIndex)
	case mask&AttrAV != 0 && a.AV.DGID.Addr().Is4() != d.addr.Is4():
		return invalid("peer %v from %v: not of one address family", a.AV.DGID, d.addr)
	case mask&AttrPathMTU != 0 && (!a.PathMTU.Valid() || a.PathMTU > port.ActiveMTU):
		return invalid("path MTU %v, the port has %v", a.PathMTU, port.ActiveMTU)
	case mask&AttrTimeout != 0 && a.Timeout > 31:
		return invalid("timeout %d, want 0 to 31", a.Timeout)
	case mask&AttrRetryCnt != 0 && a.RetryCnt > 7:
		return invalid("retry count %d, want 0 to 7", a.RetryCnt)
	case mask&AttrRNRRetry != 0 && a.RNRRetry > 7:
		return invalid("RNR retry count %d, want 0 to 7", a.RNRRetry)
	case mask&AttrMinRNRTimer != 0 && a.MinRNRTimer > 31:
		return invalid("RNR timer %d, want 0 to 31", uint8(a.MinRNRTimer))
	case mask&AttrMaxQPRdAtomic != 0 && int(a.MaxQPRdAtomic) > attr.MaxQPInitRdAtom:
		return invalid("%d READs and atomics outstanding, want 0 to %d", a.MaxQPRdAtomic, attr.MaxQPInitRdAtom)
	case mask&AttrMaxDestRdAtomic != 0 && int(a.MaxDestRdAtomic) > attr.MaxQPRdAtom:
		return invalid("%d READs and atomics of the peer, want 0 to %d", a.MaxDestRdAtomic, attr.MaxQPRdAtom)
	case mask&AttrDestQPN != 0 && a.DestQPN > 1<<24-1:
		return invalid("queue pair number %#x has more than 24 bits", a.DestQPN)
	case mask&AttrRQPSN != 0 && a.RQPSN > 1<<24-1, mask&AttrSQPSN != 0 && a.SQPSN > 1<<24-1:
		return invalid("starting PSN with more than 24 bits")
	}
	return nil
}

// keep notes the attributes that the mask names.
func (q *QP) keep(a *QPAttr, mask AttrMask) {
	k := &q.attr
	for bit, set := range map[AttrMask]func(){
		AttrAccess:          func() { k.Access = a.Access },
		AttrPKeyIndex:       func() { k.PKeyIndex = a.PKeyIndex },
		AttrPort:            func() { k.Port = a.Port },
		AttrQKey:            func() { k.QKey = a.QKey },
		AttrAV:              func() { k.AV = a.AV },
		AttrPathMTU:         func() { k.PathMTU = a.PathMTU },
		AttrTimeout:         func() { k.Timeout = a.Timeout },
		AttrRetryCnt:        func() { k.RetryCnt = a.RetryCnt },
		AttrRNRRetry:        func() { k.RNRRetry = a.RNRRetry },
		AttrRQPSN:           func() { k.RQPSN = a.RQPSN },
		AttrSQPSN:           func() { k.SQPSN = a.SQPSN },
		AttrMaxQPRdAtomic:   func() { k.MaxQPRdAtomic = a.MaxQPRdAtomic },
		AttrMaxDestRdAtomic: func() { k.MaxDestRdAtomic = a.MaxDestRdAtomic },
		AttrMinRNRTimer:     func() { k.MinRNRTimer = a.MinRNRTimer },
		AttrDestQPN:         func() { k.DestQPN = a.DestQPN },
		AttrSQDNotify:       func() { k.SQDNotify = a.SQDNotify },
	} {
		if mask&bit != 0 {
			set()
		}
	}
}

// move makes the change.
func (q *QP) move(from, to QPState, mask AttrMask) error {
	switch to {
	case StateReset:
		return numbered(q.n.ToReset())
	case StateErr:
		q.n.ToErr()
		return nil
	case StateInit:
		q.n.ToInit()
		return nil
	case StateRTR:
		q.n.ToRTR(q.responder(), q.attr.AV.path())
		return nil
	case StateSQD:
		if from == StateRTS {
			q.n.Drain(q.attr.SQDNotify && mask&AttrSQDNotify != 0)
			return nil
		}
	case StateRTS:
		if from == StateRTR {
			q.n.ToRTS(q.sender())
		}
	}
	q.adjust(from, mask)
	if from == StateSQD && to == StateRTS {
		q.n.Resume()
	}
	return nil
}

// ofSender are the attributes that the send half alone needs to know.
const ofSender = AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxQPRdAtomic

// adjust changes a queue pair that is connected. What belongs to its send half
// may change in SQD alone, when nothing is outstanding.
func (q *QP) adjust(from QPState, mask AttrMask) {
	a := &q.attr
	if mask&AttrAccess != 0 {
		q.n.SetAccess(qp.Access(a.Access))
	}
	if mask&AttrQKey != 0 {
		q.n.SetQKey(a.QKey)
	}
	if mask&AttrMinRNRTimer != 0 {
		q.n.SetMinRNRTimer(a.MinRNRTimer)
	}
	if from != StateSQD {
		return
	}
	if mask&AttrMaxDestRdAtomic != 0 {
		q.n.SetMaxDestRdAtomic(a.MaxDestRdAtomic)
	}
	if mask&AttrAV != 0 {
		q.n.Redirect(a.AV.path())
	}
	if mask&ofSender != 0 {
		q.n.SetSender(q.sender())
	}
}

func (a *AddressVector) path() nic.AddressVector {
	return nic.AddressVector{IP: a.DGID, TOS: a.TrafficClass, TTL: a.HopLimit}
}

func (q *QP) responder() qp.ResponderConfig {
	a := &q.attr
	return qp.ResponderConfig{
		DestQPN: a.DestQPN, MTU: q.mtu(), PSN: a.RQPSN, MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRNRTimer: a.MinRNRTimer, Access: qp.Access(a.Access), QKey: a.QKey,
	}
}

// mtu returns the MTU of the path. Datagrams go anywhere: theirs is the port's.
func (q *QP) mtu() roce.MTU {
	if q.datagrams() {
		return q.pd.d.Port().ActiveMTU
	}
	return q.attr.PathMTU
}

func (q *QP) sender() qp.SenderConfig {
	a := &q.attr
	probe := qp.DefaultProbe
	if a.Timeout == 0 {
		probe = 0 // to wait for ever is to ask nobody
	}
	return qp.SenderConfig{
		DestQPN: a.DestQPN, MTU: q.mtu(), PSN: a.SQPSN, QKey: a.QKey, Timeout: a.Timeout, RetryCount: a.RetryCnt,
		RNRRetry: a.RNRRetry, MaxRdAtomic: a.MaxQPRdAtomic, Probe: probe,
	}
}

// Query returns the attributes of the queue pair and how it was made.
func (q *QP) Query() (QPAttr, QPInit, error) {
	if err := q.n.Lock(); err != nil {
		return QPAttr{}, QPInit{}, numbered(err)
	}
	defer q.n.Unlock()
	a := q.attr
	s, draining := q.n.State()
	a.State, a.CurState, a.SQDraining = QPState(s), QPState(s), draining
	a.Cap = q.init.Cap
	return a, q.init, nil
}
