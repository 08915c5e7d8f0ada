package conn

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/internal/testkit/pcap"
	"github.com/gantry-rdma/gantry/roce"
)

// A line is a message that one kernel sent to the other.
type line struct {
	from, to netip.Addr
	m        *mad.MAD
}

// captured returns what two kernels said to each other, one exchange each.
func captured(t *testing.T) map[string][]line {
	t.Helper()
	files, err := filepath.Glob("../../roce/testdata/golden/cm-*.pcap")
	if err != nil || len(files) != 6 {
		t.Fatalf("got %d captures (%v), want 6", len(files), err)
	}
	all := map[string][]line{}
	for _, file := range files {
		packets, err := pcap.Packets(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range packets {
			d, ok := roce.ParseIP(b)
			if !ok {
				t.Fatalf("%s: no IP packet", file)
			}
			p, ok := roce.Parse(d.Payload())
			if !ok || p.BTH().DestQP() != 1 {
				continue
			}
			m, ok := mad.Parse(p.Payload())
			if !ok {
				t.Fatalf("%s: no MAD", file)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".pcap")
			all[name] = append(all[name], line{d.Src().Addr(), d.Dst().Addr(), m})
		}
	}
	return all
}

// A double is an agent in place of one of the kernels: it draws the numbers that
// the kernel drew, and its program says what that of the kernel said.
type double struct {
	t     *testing.T
	addr  netip.Addr
	agent *Agent
	own   []line // what the kernel said, and this one is to say
	drawn []uint64
	c     *Conn
	over  bool
}

// Send is part of Env: it wants the very bytes of the kernel.
func (d *double) Send(to netip.Addr, m *mad.MAD) {
	d.t.Helper()
	if len(d.own) == 0 {
		d.t.Fatalf("%v says %v, and the kernel says nothing more", d.addr, m)
	}
	want := d.own[0]
	d.own = d.own[1:]
	if to != want.to {
		d.t.Errorf("%v went to %v, want %v", m, to, want.to)
	}
	if diff := cmp.Diff(want.m[:], m[:]); diff != "" {
		d.t.Errorf("got  %v\nwant %v\n(-kernel +got):\n%s", m, want.m, diff)
	}
}

// Event is part of Env.
func (d *double) Event(e Event) {
	d.c = e.Conn
	d.over = e.Kind == EventDisconnected || e.Kind == EventRejected || e.Kind == EventSidrReply
}

func (d *double) random() uint64 {
	if len(d.drawn) == 0 {
		d.t.Fatal("too many numbers are drawn")
	}
	n := d.drawn[0]
	d.drawn = d.drawn[1:]
	return n
}

// newDouble returns the double of the kernel at an address.
func newDouble(t *testing.T, addr netip.Addr, story []line) *double {
	d := &double{t: t, addr: addr}
	guid := uint64(0)
	for _, l := range story {
		if l.from != addr {
			continue
		}
		d.own = append(d.own, l)
		switch l.m.Attr() {
		case mad.REQ, mad.SIDRREQ:
			id, _ := l.m.IDs()
			d.drawn = append(d.drawn, uint64(id), l.m.Transaction())
			guid = mad.ReqCAGUID.In(l.m)
		case mad.REP:
			id, _ := l.m.IDs()
			d.drawn = append(d.drawn, uint64(id))
			guid = mad.RepCAGUID.In(l.m)
		case mad.DREQ:
			d.drawn = append(d.drawn, l.m.Transaction())
		case mad.SIDRREP:
			d.drawn = append(d.drawn, 77) // the passive side has an identifier that nobody sees
		}
	}
	d.agent = New(Config{Addr: addr, GUID: guid, MTU: roce.MTU1024, Random: d.random}, d)
	return d
}

// say has the program of the kernel's double call what leads to a message.
func (d *double) say(m *mad.MAD) {
	d.t.Helper()
	var err error
	switch m.Attr() {
	case mad.REQ:
		d.c, err = d.agent.Connect(callOf(m), 1)
	case mad.REP:
		err = d.c.Accept(&Answer{AckDelay: uint8(mad.RepAckDelay.In(m)), Private: m.Private(), Local: Side{
			QPN: uint32(mad.RepQPN.In(m)), PSN: roce.PSN(mad.RepPSN.In(m)), Resources: uint8(mad.RepResources.In(m)),
			Depth: uint8(mad.RepDepth.In(m)), RNRRetry: uint8(mad.RepRNRRetry.In(m)), FlowControl: mad.RepFlowControl.In(m) != 0,
		}}, 1)
	case mad.RTU:
		err = d.c.Confirm(nil, 1)
	case mad.DREQ:
		err = d.c.Disconnect(nil, 1)
	case mad.SIDRREQ:
		private := m.Private()
		cma, _, _ := mad.ParseCMA(private)
		d.c, err = d.agent.Resolve(&Call{To: cma.Dst(), Service: mad.ServiceID(mad.SidrReqServiceID.In(m)), Private: private}, 1)
	case mad.SIDRREP:
		err = d.c.Answer(&Service{QPN: uint32(mad.SidrRepQPN.In(m)), QKey: uint32(mad.SidrRepQKey.In(m))}, 1)
	default: // DREP and REJ come by themselves
	}
	if err != nil {
		d.t.Fatalf("%v: %v", m, err)
	}
}

// callOf returns the call that leads to a REQ.
func callOf(m *mad.MAD) *Call {
	return &Call{
		To: mad.ReqRemoteGID.Addr(m), Service: mad.ServiceID(mad.ReqServiceID.In(m)), Private: m.Private(),
		Local: Side{
			QPN: uint32(mad.ReqQPN.In(m)), PSN: roce.PSN(mad.ReqPSN.In(m)), Resources: uint8(mad.ReqResources.In(m)),
			Depth: uint8(mad.ReqDepth.In(m)), RNRRetry: uint8(mad.ReqRNRRetry.In(m)), FlowControl: mad.ReqFlowControl.In(m) != 0,
		},
		FlowLabel: uint32(mad.ReqFlowLabel.In(m)),
		Terms: Terms{MTU: roce.MTU(mad.ReqPathMTU.In(m)), RetryCount: uint8(mad.ReqRetryCount.In(m)),
			AckTimeout: uint8(mad.ReqAckTimeout.In(m))},
		Timeout: uint8(mad.ReqRemoteTimeout.In(m)), Retries: uint8(mad.ReqMaxRetries.In(m)),
	}
}

// TestAgentTakesThePlaceOfAKernel plays what two kernels said to each other, once
// with an agent as the one and once as the other: it understands all it hears,
// and what it says is what the kernel said, byte for byte.
func TestAgentTakesThePlaceOfAKernel(t *testing.T) {
	for name, story := range captured(t) {
		for _, addr := range []netip.Addr{story[0].from, story[0].to} {
			t.Run(name+" as "+addr.String(), func(t *testing.T) {
				d := newDouble(t, addr, story)
				if req := story[0].m; req.Attr() == mad.REQ && story[1].m.Attr() != mad.REJ {
					_, _ = d.agent.Listen(mad.ServiceID(mad.ReqServiceID.In(req)), addr, 1)
				} else if req.Attr() == mad.SIDRREQ {
					_, _ = d.agent.Listen(mad.ServiceID(mad.SidrReqServiceID.In(req)), addr, 1)
				}
				for _, l := range story {
					if l.from == addr {
						d.say(l.m)
					} else {
						d.agent.Receive(l.from, l.m, 1)
					}
				}
				if len(d.own) != 0 {
					t.Errorf("did not say %v", d.own[0].m)
				}
				if refused := story[1].m.Attr() == mad.REJ || story[0].m.Attr() == mad.SIDRREQ; !d.over && !(refused && addr == story[0].to) {
					t.Error("the exchange has no end")
				}
				if n := d.agent.Counters().Dropped; n != [Drops]uint64{} {
					t.Errorf("messages of the kernel were not used: %v", n)
				}
			})
		}
	}
}
