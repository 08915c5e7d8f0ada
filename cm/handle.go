package cm

import (
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/conn"
	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/verbs"
)

// handle turns an event of the machines into one of a channel, and moves the
// queue pair. The caller holds mu.
func (a *agent) handle(e conn.Event, private []byte) {
	if e.Listener != nil {
		a.asked(e, private)
		return
	}
	i, ok := e.Conn.Owner.(*ID)
	if !ok || i.phase == closed {
		return
	}
	switch e.Kind {
	case conn.EventReply:
		i.replied(private)
	case conn.EventEstablished:
		i.phase = connected
		i.ch.push(Event{Type: Established, ID: i, Param: i.param(private)})
	case conn.EventRejected, conn.EventUnreachable:
		i.refused(e, private)
	case conn.EventDisconnected:
		i.phase = over
		i.fail()
		i.ch.push(Event{Type: Disconnected, ID: i, Reason: Reason(e.Reason), Param: ConnParam{PrivateData: private}})
	case conn.EventExpired:
		i.ch.push(Event{Type: TimewaitExit, ID: i})
	case conn.EventSidrReply:
		i.answered(e, private)
	case conn.EventRequest, conn.EventSidrRequest: // those have a listener
	}
}

// asked makes an ID for a peer that asks for a connection.
func (a *agent) asked(e conn.Event, private []byte) {
	l, ok := e.Listener.Owner.(*ID)
	cma, rest, good := mad.ParseCMA(private)
	if !ok || !good || l.phase != listening {
		e.Conn.Close(instant())
		return
	}
	i := l.ch.newID(l.space, l.user)
	i.c, i.phase, i.local = e.Conn, asked, l.local
	i.peer = netip.AddrPortFrom(e.Conn.Peer(), cma.Src().Port())
	e.Conn.Owner = i
	l.ch.push(Event{Type: ConnectRequest, ID: i, Listener: l, Param: i.param(rest)})
}

// param returns what the peer said, from our point of view: what it has
// outstanding is what we answer.
func (i *ID) param(private []byte) ConnParam {
	there, terms := i.c.Remote(), i.c.Terms()
	return ConnParam{
		PrivateData: private, ResponderResources: there.Depth, InitiatorDepth: there.Resources,
		FlowControl: there.FlowControl, RetryCount: terms.RetryCount, RNRRetry: there.RNRRetry, PathMTU: terms.MTU,
		Times: Times{AckTimeout: terms.AckTimeout},
	}
}

// replied connects the queue pair of the active side, and says so to the peer.
func (i *ID) replied(private []byte) {
	there := i.c.Remote()
	i.said.Resources = min(i.said.Resources, there.Depth)
	err := i.ready(there.RNRRetry)
	if err == nil {
		err = i.c.Confirm(nil, instant())
	}
	if err != nil {
		_ = i.c.Reject(mad.RejConsumer, nil, nil, instant()) // it may be over, and then nobody waits
		i.fail()
		i.phase = over
		i.ch.push(Event{Type: ConnectError, ID: i, Err: fmt.Errorf("connect to %v: %w", i.peer, err)})
		return
	}
	i.phase = connected
	i.ch.push(Event{Type: Established, ID: i, Param: i.param(private)})
}

// refused tells that there is no connection. One that stood before is over.
func (i *ID) refused(e conn.Event, private []byte) {
	out := Event{Type: Unreachable, ID: i, Param: ConnParam{PrivateData: private},
		Err: fmt.Errorf("%v does not answer: %w", i.peer, ETIMEDOUT)}
	if e.Kind == conn.EventRejected {
		out.Type, out.Reason = Rejected, Reason(e.Reason)
		out.Err = fmt.Errorf("%v refuses: %v: %w", i.peer, out.Reason, ECONNREFUSED)
	}
	switch {
	case i.phase == connected:
		out.Type = Disconnected
		i.phase = over
		i.fail()
	case i.qp != nil && i.qp.State() != verbs.StateInit:
		i.phase = over
		i.fail()
	case i.phase == begun:
		i.phase, i.c = routed, nil // the queue pair is as new: try again
	case i.ch.withdraw(i):
		return // whoever asks and takes it back, again and again, leaves nothing
	default:
		i.phase = over
	}
	i.ch.push(out)
}

// sidrReasons are what refuses a question for datagrams, as reasons.
var sidrReasons = map[mad.SidrStatus]mad.Reason{
	mad.SidrUnsupported: mad.RejInvalidServiceID, mad.SidrRejected: mad.RejConsumer, mad.SidrNoQP: mad.RejNoQP,
	mad.SidrRedirect: mad.RejCMRedirect, mad.SidrVersion: mad.RejClassVersion,
}

// answered takes the answer to a question for datagrams.
func (i *ID) answered(e conn.Event, private []byte) {
	if e.Status != mad.SidrValid {
		why, known := sidrReasons[e.Status]
		if !known {
			why = mad.RejUnsupported
		}
		i.phase = routed
		i.ch.push(Event{Type: Rejected, ID: i, Reason: Reason(why), Param: ConnParam{PrivateData: private},
			Err: fmt.Errorf("%v refuses: %v: %w", i.peer, e.Status, ECONNREFUSED)})
		return
	}
	i.phase = connected
	there := e.Conn.Remote()
	i.ch.push(Event{Type: Established, ID: i, AH: verbs.AHTo(i.peer.Addr()), QPN: there.QPN, QKey: there.QKey,
		Param: ConnParam{PrivateData: private}})
}
