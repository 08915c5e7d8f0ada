package pingpong

import (
	"errors"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/verbs"
)

// ErrLost is wrapped by errors of messages that do not arrive.
var ErrLost = errors.New("no answer")

// stalled says why nothing happens any more.
func (g *game) stalled() error {
	t := &g.e.test
	why := g.e.findings()
	if why == "" && g.received+g.sent == 0 {
		why = fmt.Sprintf("its packets did come, and no whole message: is --size %d its size as well", t.Size)
		if t.Type != verbs.UD {
			why += fmt.Sprintf(", and --mtu %d its MTU", t.MTU)
		}
	} else if why == "" {
		why = "the other end has ended or stands still"
		if t.Type != verbs.RC {
			why += fmt.Sprintf(", or a packet is lost: %v does not send it again", name(t.Type))
		}
	}
	return fmt.Errorf("nothing has come from %v for %v, after %d of %d messages: %s: %w",
		g.e.peer.GID, t.Limit, g.received, t.Iters, why, ErrLost)
}

// failed says what a completion in error means.
func (g *game) failed(wc *verbs.WC) error {
	e, what := g.e, "receive"
	if wc.ID == sendID {
		what = fmt.Sprintf("message %d", g.posted)
	}
	return fmt.Errorf("%s: %v (%d): %s: %w", what, wc.Status.Description(), wc.Status, g.cause(wc.Status), blame(e, wc.Status))
}

// blame returns the error that a status stands for.
func blame(e *end, s verbs.WCStatus) error {
	if s == verbs.WCRetryExc || s == verbs.WCRNRRetryExc {
		return ErrLost
	}
	return ErrPeer
}

// cause says in one sentence what a status comes from in a test like this.
func (g *game) cause(s verbs.WCStatus) string {
	e := g.e
	mtu := fmt.Sprintf("give both ends the same --size and --mtu (here %d and %d)", e.test.Size, e.test.MTU)
	switch s {
	case verbs.WCRetryExc:
		each := (4096 * time.Nanosecond) << e.test.AckTimeout
		why := e.findings()
		if why == "" {
			why = "the other end has ended or stands still, or the way to it is cut"
		}
		return fmt.Sprintf("%v has not acknowledged it, sent %d times at intervals of %v: %s",
			e.peer.GID, retryCount+1, each.Round(time.Millisecond), why)
	case verbs.WCRNRRetryExc:
		return fmt.Sprintf("%v has no receive posted", e.peer.GID)
	case verbs.WCRemInvReqErr, verbs.WCRemOpErr:
		return fmt.Sprintf("%v refused it, as it does when sizes or MTUs differ: %s", e.peer.GID, mtu)
	case verbs.WCLocLenErr:
		return fmt.Sprintf("a message from %v does not fit: %s", e.peer.GID, mtu)
	case verbs.WCFlushErr, verbs.WCLocQPOpErr:
		if ev, ok := e.dev.TryEvent(); ok {
			return fmt.Sprintf("this end refused what %v sent (%v): %s", e.peer.GID, ev.Type, mtu)
		}
	}
	return "what the other end printed may say why"
}

// findings says what the counters of the device tell about packets that do not
// arrive, the most telling first, or "".
func (e *end) findings() string {
	peer, local := e.peer.GID, e.dev.Addr()
	count := e.dev.Counter
	for _, f := range []struct{ counter, means string }{
		{"drop_icrc", "came with a wrong ICRC: something between the ends (NAT, a tunnel, an overlay) rewrites addresses, ports " +
			"or contents, which the ICRC covers: use addresses that both ends see alike; gantry doctor looks for such things"},
		{"drop_address", "came from an address that is not the GID " + peer.String() + ": NAT rewrites it, or the other end sends from another of its addresses"},
		{"drop_unknown_qp", "were for a queue pair that does not exist here: something else sends to this address"},
		{"drop_transport", "belong to another transport service: run the same of rc, uc and ud at both ends"},
		{"drop_qkey", "have another Q_Key than pingpong programs have"},
		{"drop_too_long", "belong to messages that do not fit: give both ends the same --size"},
		{"drop_malformed", "are not what a queue pair with this end's MTU may get: give both ends the same --mtu"},
		{"drop_no_receive", "found no receive posted: give this end a larger --rx-depth"},
		{"drop_socket_buffer", "did not fit into the socket buffer: see socket_buffers of gantry doctor"},
		{"drop_order", "belong to a message whose beginning is lost"},
		{"drop_rest", "belong to a message of which others are lost"},
		{"drop_qp_state", "came when the queue pair could not take them"},
	} {
		if n := count(f.counter); n > 0 {
			return fmt.Sprintf("%d packets %s", n, f.means)
		}
	}
	if n := count("send_err"); n > 0 {
		return fmt.Sprintf("the system refused to send %d packets: is there a way to %v, and does a firewall allow UDP port 4791?", n, peer)
	}
	if count("rcvd_pkts") == 0 {
		return fmt.Sprintf("not one packet has come to UDP port 4791 of %v: look whether the other end runs, whether %v is on its "+
			"machine, and whether a firewall drops UDP port 4791", local, peer)
	}
	return ""
}

// name returns the name of a transport service.
func name(t verbs.QPType) string {
	switch t {
	case verbs.RC:
		return "RC"
	case verbs.UC:
		return "UC"
	case verbs.UD, verbs.GSI:
	}
	return "UD"
}
