package pingpong

import (
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

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
		why = "the other end has ended (has it the same --iters?) or stands still"
		if t.Type != verbs.RC {
			why += fmt.Sprintf(", or a packet is lost: %v does not send it again", name(t.Type))
		}
	}
	return rendezvous.Errorf(rendezvous.ErrLost, "nothing has come from %v for %v, after %d of %d messages: %s",
		g.e.peer.GID, t.Limit, g.received, t.Iters, why)
}

// failed says what a completion in error means.
func (g *game) failed(wc *verbs.WC) error {
	e, what := g.e, "receive"
	if wc.ID == sendID {
		what = fmt.Sprintf("message %d", g.posted)
	}
	return rendezvous.Errorf(blame(e, wc.Status), "%s: %v (%d): %s", what, wc.Status.Description(), wc.Status, g.cause(wc.Status))
}

// blame returns the error that a status stands for.
func blame(e *end, s verbs.WCStatus) error {
	if s == verbs.WCRetryExc || s == verbs.WCRNRRetryExc {
		return rendezvous.ErrLost
	}
	return rendezvous.ErrPeer
}

// cause says in one sentence what a status comes from in a test like this.
func (g *game) cause(s verbs.WCStatus) string {
	e := g.e
	mtu := fmt.Sprintf("give both ends the same --size and --mtu (here %d and %d)", e.test.Size, e.test.MTU)
	switch s {
	case verbs.WCRetryExc:
		why := e.findings()
		if why == "" {
			why = "the other end has ended or stands still, or the way to it is cut"
		}
		return fmt.Sprintf("%v has not acknowledged it, sent %d times at intervals of %v: %s",
			e.peer.GID, retryCount+1, e.test.timeout().Round(time.Millisecond), why)
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

// signs are counters of packets that came in vain, the most telling first, and
// what each means in a test like this.
var signs = []struct{ counter, means string }{
	{"drop_icrc", "come with a wrong ICRC: something between the ends (NAT, a tunnel, an overlay) rewrites addresses, ports or " +
		"contents, all of which it covers: use addresses that both ends see alike; gantry doctor looks for such things"},
	{"drop_address", "come from or for an address that is not the one agreed upon: NAT rewrites it, or the other end sends from another of its addresses"},
	{"drop_unknown_qp", "are for a queue pair that does not exist here: another program sends to this address"},
	{"drop_transport", "belong to another transport service: run the same of rc, uc and ud at both ends"},
	{"drop_qkey", "have another Q_Key than pingpong programs have: another program sends to this address"},
	{"drop_too_long", "belong to messages that do not fit: give both ends the same --size"},
	{"drop_malformed", "are not what comes with this end's MTU: give both ends the same --mtu"},
	{"drop_no_receive", "find no receive posted: give this end a larger --rx-depth"},
	{"drop_socket_buffer", "do not fit into the socket buffer: see socket_buffers of gantry doctor"},
	{"drop_order", "belong to a message whose beginning is lost"},
	{"drop_rest", "belong to a message of which another part is lost"},
	{"drop_qp_state", "come when the queue pair cannot take them"},
}

// findings says what the counters of the device tell about packets that do not
// arrive, or "".
func (e *end) findings() string {
	for _, s := range signs {
		if n := e.dev.Counter(s.counter); n > 0 {
			return fmt.Sprintf("packets %s (%s %d)", s.means, s.counter, n)
		}
	}
	peer, refused := e.peer.GID, e.dev.Counter("send_err")
	switch {
	case refused > 0 && e.test.Faults == (link.Faults{Seed: e.test.Faults.Seed}):
		return fmt.Sprintf("the system refuses to send packets (send_err %d): is there a way to %v, and does a firewall allow UDP port 4791?", refused, peer)
	case e.dev.Counter("rcvd_pkts") == 0:
		hidden := "and whether a firewall drops UDP port 4791"
		n := e.test.Size
		if e.test.Type != verbs.UD {
			n = min(n, e.test.MTU)
		}
		if n > ethernetMTU {
			hidden = fmt.Sprintf("whether the network between carries packets of %d bytes, %s", n, hidden)
		}
		return fmt.Sprintf("not one packet has come to UDP port 4791 of %v: see what the other end printed, whether %v is on its "+
			"machine, %s", e.dev.Addr(), peer, hidden)
	}
	return ""
}

// ethernetMTU is the path MTU that every network carries.
const ethernetMTU = 1024

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
