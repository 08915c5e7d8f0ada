package pingpong

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// stalled says why nothing happens any more.
func (g *game) stalled() error {
	t := &g.e.test
	why, late := g.e.findings(), g.e.counter("drop_late")
	switch {
	case why != "":
	case g.received == 0 && late > 0:
		why = fmt.Sprintf("its packets have PSNs from before the one that it named (drop_late %d): is what sends them the program that named it", late)
	case g.received+g.sent == 0:
		why = fmt.Sprintf("its packets did come, and no whole message: is --size %d its size as well", t.Size)
		if t.Type != verbs.UD {
			why += fmt.Sprintf(", and --mtu %d its MTU", t.MTU)
		}
	default:
		why = "the other end has ended (has it the same --iters?) or stands still"
		if t.Type != verbs.RC {
			why += fmt.Sprintf(", or a packet is lost: %v does not send it again", name(t.Type))
		}
	}
	return rendezvous.Errorf(rendezvous.ErrLost, "nothing has come from %v for %v, after %d of %d messages: %s; counted here: %s",
		g.e.peer.GID, t.Limit, g.received, t.Iters, why, g.e.tally())
}

// tally lists what became of packets at this end. The lists of both ends
// together say whether a packet has left, has come, and why it was dropped.
func (e *end) tally() string {
	var b strings.Builder
	for _, c := range e.dev.Counters() {
		switch c.Name {
		case "sent_pkts", "rcvd_pkts":
		case "send_err", "link_blocked", "no_receive_buffer", "no_frame", "no_room", "out_of_seq_request":
			if c.Value == 0 {
				continue
			}
		default:
			if c.Value == 0 || !strings.HasPrefix(c.Name, "drop_") {
				continue
			}
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %d", c.Name, c.Value)
	}
	return b.String()
}

// failed says what a completion in error means.
func (g *game) failed(wc *verbs.WC) error {
	e, what := g.e, "receive"
	if wc.ID == sendID {
		what = fmt.Sprintf("message %d", g.posted)
		if first := g.sent + 1; first < g.posted {
			what = fmt.Sprintf("one of messages %d to %d", first, g.posted)
		}
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
var signs = []rendezvous.Sign{
	{Counter: "drop_unknown_qp", What: "are for a queue pair that does not exist here", Advice: "another program sends to this address"},
	{Counter: "drop_transport", What: "belong to another transport service", Advice: "run the same of rc, uc and ud at both ends"},
	{Counter: "drop_qkey", What: "have another Q_Key than pingpong programs have", Advice: "another program sends to this address"},
	{Counter: "drop_too_long", What: "belong to messages that do not fit", Advice: "give both ends the same --size"},
	{Counter: "drop_malformed", What: "are not what comes with this end's MTU", Advice: "give both ends the same --mtu"},
	{Counter: "drop_no_receive", What: "find no receive posted", Advice: "give this end a larger --rx-depth"},
	{Counter: "drop_socket_buffer", What: "do not fit into the socket buffer", Advice: "see socket_buffers of gantry doctor"},
	{Counter: "drop_order", What: "belong to a message whose beginning is lost"},
	{Counter: "drop_rest", What: "belong to a message of which another part is lost"},
	{Counter: "drop_qp_state", What: "come when the queue pair cannot take them"},
}

// findings says what the counters of the device tell about packets that do not
// arrive, or "".
func (e *end) findings() string {
	peer := e.peer.GID.Addr()
	look := fmt.Sprintf("see what the other end printed, whether %v is on its machine", peer)
	n := e.test.Size
	if e.test.Type != verbs.UD {
		n = min(n, e.test.MTU)
	}
	if n > ethernetMTU {
		look += fmt.Sprintf(", whether the network between carries packets of %d bytes", n)
	}
	return rendezvous.Findings(e.counter, e.dev.Addr(), peer, look, signs...)
}

// counter returns a counter of the device. Faults spoil packets, and what the
// system refuses of these says nothing about the network.
func (e *end) counter(name string) uint64 {
	if name == "send_err" && e.test.Faults != (link.Faults{Seed: e.test.Faults.Seed}) {
		return 0
	}
	return e.dev.Counter(name)
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
