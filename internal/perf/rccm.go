package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// An rcIntroducer connects the flows of an end through the connection manager:
// the client calls, once for each, and says which one it means: number, queue
// pair and Q_Key, four bytes each. The last two are news with datagrams.
type rcIntroducer struct {
	e        *rcEnd
	ch       *cm.Channel
	space    cm.PortSpace
	listener *cm.ID // of a server
	flow     map[*cm.ID]int
	stand    int // flows that are connected
}

// rcCMResponse says how soon a message of the connection manager is repeated:
// 134 ms, so that a bad network does not take seconds.
const rcCMResponse = 15

// newIntroducer opens the connection manager. A server listens.
func newIntroducer(e *rcEnd) (*rcIntroducer, error) {
	ch, err := cm.Open(e.port.dev)
	if err != nil {
		return nil, fmt.Errorf("open the connection manager: %w", err)
	}
	e.later(ch.Close)
	n := &rcIntroducer{e: e, ch: ch, space: cm.TCP, flow: map[*cm.ID]int{}}
	if e.test.Transport == "UD" {
		n.space = cm.UDP
	}
	if e.number == 0 {
		return n, nil
	}
	if n.listener, err = ch.NewID(n.space, nil); err == nil {
		err = n.listener.Listen(netip.AddrPortFrom(e.port.dev.Addr(), 0), len(e.flows))
	}
	return n, err
}

// port returns where a server listens, and 0 at a client.
func (n *rcIntroducer) port() uint16 {
	if n.listener == nil {
		return 0
	}
	return n.listener.LocalAddr().Port()
}

// begin lets a client call. A server waits for it.
func (n *rcIntroducer) begin(mtu roce.MTU) error {
	if n.listener != nil {
		return nil
	}
	e := n.e
	for i := range e.flows {
		id, err := n.ch.NewID(n.space, nil)
		if err == nil {
			err = id.ResolveAddr(netip.AddrPortFrom(e.far.Addr, e.far.Port))
		}
		if err == nil {
			err = id.ResolveRoute()
		}
		if err == nil {
			err = n.open(id, i)
		}
		if err == nil && n.space != cm.UDP {
			err = e.equip(i)
		}
		if err == nil {
			p := n.param()
			p.PrivateData = n.introduction(i)
			p.RetryCount, p.PathMTU = uint8(e.test.RetryCount), mtu
			p.Times = cm.Times{Response: rcCMResponse, AckTimeout: uint8(e.test.Timeout)}
			err = id.Connect(p)
		}
		if err != nil {
			return fmt.Errorf("connect queue pair %d to %v: %w", i, e.far.Addr, err)
		}
	}
	return nil
}

// introduction is what a client says of a flow.
func (n *rcIntroducer) introduction(i int) (b []byte) {
	q := n.e.flows[i].qp
	attr, _, _ := q.Query() // it has just been made
	for _, word := range []uint32{uint32(i), q.Num(), attr.QKey} {
		b = binary.BigEndian.AppendUint32(b, word)
	}
	return b
}

// introduced takes what a client has said.
func (n *rcIntroducer) introduced(b []byte) (i int, err error) {
	number := binary.BigEndian.Uint32(b)
	if uint64(number) >= uint64(len(n.e.flows)) || n.e.flows[number].qp != nil {
		return 0, fmt.Errorf("it connects queue pair %d, of %d: %w", number, len(n.e.flows), ErrRCPeer)
	}
	i = int(number)
	n.e.far.QPs[i].Num, n.e.qkey = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	return i, nil
}

func (n *rcIntroducer) param() cm.ConnParam {
	most := uint8(n.e.test.Outstanding)
	return cm.ConnParam{ResponderResources: most, InitiatorDepth: most, RNRRetry: 7}
}

// open makes the queue pair of a flow.
func (n *rcIntroducer) open(id *cm.ID, i int) (err error) {
	e, f := n.e, &n.e.flows[i]
	if f.qp, err = id.CreateQP(e.pd, e.queuePair()); err != nil {
		return err
	}
	e.later(func() error {
		if err := id.Close(); !errors.Is(err, verbs.EBUSY) {
			return err
		}
		return f.qp.Destroy()
	})
	n.flow[id] = i
	return nil
}

// step takes an event, if there is one, and reports whether all flows are
// connected.
func (n *rcIntroducer) step() (done bool, err error) {
	if ev, ok := n.ch.TryNext(); ok {
		err = n.take(ev)
	}
	return n.stand == len(n.e.flows), err
}

func (n *rcIntroducer) take(ev cm.Event) error {
	switch ev.Type {
	case cm.ConnectRequest:
		return n.answer(ev)
	case cm.Established:
		n.stand++
		i := n.flow[ev.ID]
		if n.space == cm.UDP {
			n.e.far.QPs[i].Num, n.e.qkey = ev.QPN, ev.QKey
			return n.e.equip(i)
		}
		return n.hurry(i)
	case cm.Rejected:
		return fmt.Errorf("queue pair %d: the other end refuses the connection: %v: %w", n.flow[ev.ID], ev.Reason, ErrRCPeer)
	case cm.Unreachable:
		return fmt.Errorf("queue pair %d: %v does not answer: %s: %w", n.flow[ev.ID], n.e.far.Addr, n.e.silence(), ErrRCPeer)
	case cm.ConnectError, cm.AddrError:
		return fmt.Errorf("queue pair %d: %v: %w", n.flow[ev.ID], ev.Type, ev.Err)
	case cm.Disconnected:
		return fmt.Errorf("queue pair %d: the other end has disconnected: %w", n.flow[ev.ID], ErrRCPeer)
	case cm.AddrResolved, cm.RouteResolved, cm.TimewaitExit:
	}
	return nil
}

// answer accepts a client's flow. With datagrams it stands then.
func (n *rcIntroducer) answer(ev cm.Event) error {
	i, err := n.introduced(ev.Param.PrivateData)
	if err != nil {
		return err
	}
	if err = n.open(ev.ID, i); err == nil {
		err = n.e.equip(i)
	}
	if err != nil {
		return fmt.Errorf("queue pair %d: %w", i, err)
	}
	if n.space == cm.UDP {
		n.stand++
	}
	return ev.ID.Accept(n.param())
}

// hurry gives a flow the RNR timer that it has without the connection manager.
func (n *rcIntroducer) hurry(i int) error {
	if n.e.lossy {
		return nil // UC has none
	}
	return n.e.flows[i].qp.Modify(verbs.QPAttr{State: verbs.StateRTS, MinRNRTimer: rnrTimer}, verbs.AttrState|verbs.AttrMinRNRTimer)
}

// introduce waits until all flows of the ends, of which there are one or two in
// this process, are connected.
func introduce(ctx context.Context, ends ...*rcEnd) error {
	for start := time.Now(); ; {
		left := 0
		for _, e := range ends {
			if e.cm == nil {
				continue
			}
			done, err := e.cm.step()
			if err != nil {
				return err
			}
			if !done {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(start) > answerTime {
			return fmt.Errorf("not all queue pairs are connected after %v: %s: %w", answerTime, ends[0].silence(), ErrRCPeer)
		}
		notify.Yield()
	}
}
