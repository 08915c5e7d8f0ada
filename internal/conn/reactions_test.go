package conn

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/internal/mad"
)

// waysTo are scripts that bring a connection of host A to each state.
var waysTo = map[State]string{
	ReqSent:      "drop A REQ\nconnect A",
	ReqReceived:  "listen A\nconnect B",
	RepSent:      "listen A\nconnect B\ndrop A REP\naccept A1",
	RepReceived:  "listen B\nconnect A\naccept B1",
	Established:  "listen B\nconnect A\naccept B1\nconfirm A1",
	DreqSent:     "listen B\nconnect A\naccept B1\nconfirm A1\ndrop A DREQ\ndisconnect A1",
	TimeWait:     "listen B\nconnect A\naccept B1\nconfirm A1\ndisconnect A1",
	Refused:      "listen A\nconnect B\ndrop A REJ\nreject A1",
	SidrSent:     "drop A SIDR_REQ\nresolve A udp",
	SidrReceived: "listen A udp\nresolve B udp",
	SidrAnswered: "listen A udp\nresolve B udp\ndrop A SIDR_REP\nanswer A1",
}

// TestEveryMessageInEveryState holds the whole table: what each message of the
// right peer does to a connection in each state.
func TestEveryMessageInEveryState(t *testing.T) {
	var out strings.Builder
	for s := ReqSent; s < states; s++ {
		fmt.Fprintf(&out, "%v\n", s)
		for a := mad.REQ; a <= mad.APR; a++ {
			g := newStage(t)
			g.play(waysTo[s])
			h, peer := g.hosts["A"], g.hosts["B"]
			c := h.conns[0]
			if c.State() != s {
				t.Fatalf("got state %v, want %v", c.State(), s)
			}
			peer.agent = New(peer.config(), peer) // it is not to react
			g.fates = []*fate{{what: "drop", from: "A", attr: mad.REJ, n: 9}, {what: "drop", from: "A", attr: mad.DREP, n: 9}}
			g.trace.Reset()
			deliver(h, peer, c, a)
			fmt.Fprintf(&out, "\t%-8v -> %v", a, c.State())
			for line := range strings.Lines(g.trace.String()) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), "   lost")
				fmt.Fprintf(&out, "; %s", strings.Join(strings.Fields(line), " "))
			}
			out.WriteString(dropped(h.agent.Counters()) + "\n")
		}
	}
	const golden = "testdata/reactions.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("the table has changed: run with -update and read the difference\n%s", got)
	}
}

// deliver gives a connection the message that its peer would send.
func deliver(h, peer *host, c *Conn, a mad.Attr) {
	theirs := c.remoteID
	if theirs == 0 {
		theirs = 0xb1
	}
	m := mad.New(a, c.exchange)
	switch a {
	case mad.REQ:
		again := peer.call(args{t: h.g.t, words: []string{fmt.Sprintf("qpn=%d", c.remote.QPN)}})
		x := &Conn{a: peer.agent, peer: h.addr, localID: theirs, exchange: c.exchange, retries: 3, terms: Terms{AckTimeout: 16}}
		m = x.req(again)
	case mad.SIDRREQ:
		m = mad.New(a, c.exchange)
		mad.SidrReqID.Set(m, uint64(theirs))
		mad.SidrReqServiceID.Set(m, uint64(mad.Service(mad.SpaceUDP, 7)))
		call := peer.call(args{t: h.g.t, words: []string{"udp"}})
		mad.SidrReqPrivate.Put(m, call.Private)
	case mad.SIDRREP:
		mad.SidrRepID.Set(m, uint64(c.localID))
	default:
		mad.RepLocalID.Set(m, uint64(theirs))
		mad.RepRemoteID.Set(m, uint64(c.localID))
	}
	switch a {
	case mad.REP:
		mad.RepQPN.Set(m, 0x22)
		mad.RepCAGUID.Set(m, uint64('B'))
	case mad.DREQ:
		mad.DreqRemoteQPN.Set(m, uint64(c.local.QPN))
	case mad.REJ:
		mad.RejReason.Set(m, uint64(mad.RejConsumer))
	}
	h.agent.Receive(peer.addr, m, h.g.now)
}

// dropped says what a message was counted as, if it was not used.
func dropped(n Counters) (s string) {
	for i, v := range n.Dropped {
		if v > 0 {
			s += "; drop " + Drop(i).String()
		}
	}
	return s
}
