package script

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/roce"
)

var (
	fakeLocal = netip.MustParseAddrPort("192.0.2.1:4791")
	fakePeer  = netip.MustParseAddrPort("192.0.2.2:4791")
)

// A fakeWire has a time of its own, and packets that are to come at some time
// of it.
type fakeWire struct {
	now  time.Time
	sent [][]byte
	from []netip.Addr
	to   []netip.Addr
	due  []fakeArrival
	fail error
}

type fakeArrival struct {
	at time.Time
	a  Arrival
}

func newFakeWire() *fakeWire { return &fakeWire{now: time.Unix(1000, 0)} }

func (w *fakeWire) config() Config {
	return Config{Wire: w, Local: fakeLocal, Peer: fakePeer, Limit: time.Second}
}

func (w *fakeWire) Send(from, to netip.Addr, b []byte) error {
	w.sent, w.from, w.to = append(w.sent, b), append(w.from, from), append(w.to, to)
	return w.fail
}

func (w *fakeWire) Recv(ctx context.Context, deadline time.Time) (Arrival, bool, error) {
	if len(w.due) > 0 && !w.due[0].at.After(deadline) {
		d := w.due[0]
		w.due = w.due[1:]
		if d.at.After(w.now) {
			w.now = d.at
		}
		return d.a, true, nil
	}
	if deadline.After(w.now) {
		w.now = deadline
	}
	return Arrival{}, false, ctx.Err()
}

func (w *fakeWire) Now() time.Time { return w.now }

func (w *fakeWire) Sleep(ctx context.Context, d time.Duration) error {
	w.now = w.now.Add(d)
	return ctx.Err()
}

// comes lets a packet come after a while. It is written as a script sends it,
// but from the peer.
func (w *fakeWire) comes(t *testing.T, after time.Duration, text string) {
	t.Helper()
	l := &line{text: text}
	tpl := l.template()
	if l.end(); l.err != nil {
		t.Fatal(l.err)
	}
	b, err := tpl.build(vars{"qpn": firstQPN})
	if err != nil {
		t.Fatal(err)
	}
	e := ends{roce.Path{Src: fakePeer, Dst: fakeLocal, Ident: roce.Segment(0)}}
	b, ok := e.seal(b)
	if !ok {
		t.Fatal("not sealed")
	}
	if tpl.icrc == "bad" {
		b[len(b)-1]++
	}
	w.due = append(w.due, fakeArrival{w.now.Add(after), Arrival{fakePeer, fakeLocal.Addr(), b}})
}

// play plays a text and returns why it failed, or "".
func (w *fakeWire) play(t *testing.T, text string) string {
	t.Helper()
	s, err := Parse("x", text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Play(t.Context(), w.config()); err != nil {
		return err.Error()
	}
	return ""
}

// wants fails the test unless got is empty, or has what is wanted.
func wants(t *testing.T, got, want string) {
	t.Helper()
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSentPacketsAreWhatTheLineSays(t *testing.T) {
	w := newFakeWire()
	wants(t, w.play(t, `set qpn = 0x22
send RC WRITE_ONLY psn=0x1000001 va=1 rkey=2 dma=5 len=5 fill=1 se ack
ack psn=7 msn=3
rnr 12 psn=8
nak sequence psn=9 from=local+3
send any op=0x1f psn=4 data=0102
send RC SEND_ONLY psn=5 data="hi" len=4`), "")
	want := []string{
		"RC WRITE_ONLY psn=1 qp=0x22 se ack pad=3 len=5 va=0x1 rkey=0x2 dma=5",
		"RC ACK psn=7 qp=0x22 pad=0 len=0 ACK msn=3",
		"RC ACK psn=8 qp=0x22 pad=0 len=0 RNR_NAK/640us msn=0",
		"RC ACK psn=9 qp=0x22 pad=0 len=0 NAK/sequence msn=0",
		"",
		"RC SEND_ONLY psn=5 qp=0x22 pad=0 len=4",
	}
	for i, b := range w.sent {
		x, ok := roce.Parse(b)
		got := ""
		if ok {
			got = x.String()
		}
		if got != want[i] {
			t.Errorf("packet %d is %q, want %q", i, got, want[i])
		}
	}
	if got := w.from[3]; got != netip.MustParseAddr("192.0.2.4") {
		t.Errorf("sent from %v", got)
	}
	if b := w.sent[4]; b[0] != 0x1f || len(b) != roce.BTHLen+2+2+roce.ICRCLen {
		t.Errorf("unknown opcode is %x", b)
	}
}

// A packet may go elsewhere; its ICRC is of where it goes, with the group of the
// family that the ends have.
func TestPacketsGoWhereTheLineSays(t *testing.T) {
	w := newFakeWire()
	wants(t, w.play(t, "send UD SEND_ONLY psn=1\nsend UD SEND_ONLY psn=1 to=group+1\nsend UD SEND_ONLY psn=1 to=192.0.2.9 from=local+5"), "")
	for i, want := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"192.0.2.1", "239.0.2.2"}, {"192.0.2.6", "192.0.2.9"}} {
		src, dst := netip.MustParseAddr(want[0]), netip.MustParseAddr(want[1])
		if w.from[i] != src || w.to[i] != dst {
			t.Errorf("packet %d goes from %v to %v, want %v to %v", i, w.from[i], w.to[i], src, dst)
		}
		x, _ := roce.Parse(w.sent[i])
		at := ends{roce.Path{Src: netip.AddrPortFrom(src, roce.Port), Dst: netip.AddrPortFrom(dst, roce.Port)}}
		if at.damaged(x) {
			t.Errorf("packet %d has the ICRC of another path", i)
		}
	}
	if got := groupNear(netip.MustParseAddr("fd00:1::9:1")); got != netip.MustParseAddr("ff15::9:1") {
		t.Errorf("the group over IPv6 is %v", got)
	}
}

func TestPacketsThatAreWrongOnPurpose(t *testing.T) {
	w := newFakeWire()
	wants(t, w.play(t, `send RC SEND_ONLY psn=5 len=5 pad=1 padding=2
send RC SEND_ONLY psn=5 len=4 cut=6
send RC SEND_ONLY psn=5 len=4 tail=aabb icrc=none
send RC SEND_ONLY psn=5 ver=9
raw 0102
raw 0102 icrc=none
send RC SEND_ONLY psn=5
send RC SEND_ONLY psn=5 icrc=bad`), "")
	for i, n := range []int{12 + 5 + 2 + 4, 12 + 4 + 4 - 6, 12 + 4 + 2, 16, 2 + 4, 2, 16, 16} {
		if got := len(w.sent[i]); got != n {
			t.Errorf("packet %d has %d bytes, want %d", i, got, n)
		}
	}
	if w.sent[0][1]>>4&3 != 1 || w.sent[3][1]&15 != 9 {
		t.Errorf("pad count or version are not as said: %x %x", w.sent[0], w.sent[3])
	}
	good, bad := w.sent[6], w.sent[7]
	if string(good[:12]) != string(bad[:12]) || string(good[12:]) == string(bad[12:]) {
		t.Errorf("the bad ICRC: %x and %x", good, bad)
	}
}

func TestValuesThatDoNotFit(t *testing.T) {
	for text, want := range map[string]string{
		"send RC SEND_ONLY psn=1 qp=0x1000000":     "qp=0x1000000: it has 24 bits",
		"send RC SEND_ONLY psn=1 pkey=-1":          "it has 16 bits",
		"send RC SEND_ONLY psn=1 len=70000":        "len=0x11170: up to 0x10000 is possible",
		"send RC SEND_ONLY psn=1 len=65520":        "longer than a UDP datagram",
		"send RC SEND_ONLY psn=1 cut=99":           "cut=0x63: up to",
		"rnr 32 psn=1":                             "the RNR timer=0x20: up to 0x1f",
		"delay 100000s":                            "up to 24h0m0s is possible",
		"check 1 == 2":                             "x:1: check 1 == 2: it is not true",
		"send RC SEND_ONLY psn=x":                  "x has no value",
		"param x":                                  "give it with --set x=VALUE",
		"repeat 1/0\nend":                          "has no value",
		"repeat 2 as i\ncheck i == 0\nend":         "x:2: check i == 0",
		"complete send id=1":                       "",
		"repeat 1000000000000\nend":                "",
		"send RC SEND_ONLY psn=1 from=2001:db8::1": "two families",
		"expect RC ACK psn=1 within=2s\nset a = 1": "nothing came in 2s",
		"expect RC ACK psn=1 after=5s\nset a = 1":  "nothing came in 6s",
		"limit 3s\nmark\nexpect RC ACK psn=1":      "nothing came in 3s",
	} {
		t.Run(text, func(t *testing.T) { wants(t, newFakeWire().play(t, text), want) })
	}
}

func TestExpectedPacketsAreCompared(t *testing.T) {
	for text, want := range map[string]string{
		"expect RC ACK psn=5": "",
		"expect RC ACK psn=5 syndrome=ACK msn=9 !ack qp=0x11":   "",
		"expect RC ACK psn=0x1000005":                           "",
		"expect any psn=5":                                      "",
		"expect RC ACK psn>4 psn<6 msn!=8":                      "",
		"expect RC ACK psn=?p msn=?m\ncheck p == 5\ncheck m==9": "",
		"expect RC ACK len=?n\ncheck n == 0":                    "",
		"drop RC ACK":                                           "",
		"expect RC ACK psn=6":                                   "psn is 5, want 6",
		"expect RC ACK psn!=5":                                  "psn is 5, want !5",
		"expect RC ACK ack":                                     "ack is 0x0, want 0x1",
		"expect RC ACK qp=0x12":                                 "qp is 0x11, want 0x12",
		"expect RC ACK syndrome=NAK_SEQUENCE":                   "syndrome is ACK, want NAK/sequence",
		"expect RC ATOMIC_ACK psn=5":                            "it is RC ACK",
		"expect any va=1":                                       "it has no va",
		"expect any va=?v":                                      "RC ACK has no va to keep",
		"set local_qpn = 0x99\nexpect RC ACK":                   "it is for queue pair 0x11, want 0x99",
		"expect RC ACK after=1ms":                               "",
		"expect RC ACK after=50ms":                              "too early",
		"expect RC ACK within=1ms":                              "nothing came in 1ms",
		"ignore RC ACK msn=9\nexpect RC ACK psn=6":              "nothing came",
		"ignore RC ACK msn=8\nexpect RC ACK psn=6":              "psn is 5",
		"ignore RC ACK\nignore nothing\nexpect RC ACK psn=6":    "psn is 5",
		"silence 5ms":                                           "",
		"silence 15ms":                                          "came",
		"ignore RC ACK\nsilence 15ms":                           "",
		"silence 5ms\nexpect RC ACK psn=5\nsilence 1s":          "",
		"delay 20ms\nexpect RC ACK psn=5 within=1s":             "",
	} {
		t.Run(text, func(t *testing.T) {
			w := newFakeWire()
			w.comes(t, 10*time.Millisecond, "RC ACK psn=5 msn=9")
			wants(t, w.play(t, text), want)
		})
	}
}

func TestPayloadsAreCompared(t *testing.T) {
	for text, want := range map[string]string{
		"expect RC SEND_ONLY len=4 fill=1":       "",
		"expect RC SEND_ONLY data=01080f16":      "",
		"expect RC SEND_ONLY data=0108":          "",
		"expect RC SEND_ONLY fill=1 at=0":        "",
		"expect RC SEND_ONLY fill=1 at=1":        "byte 0 is 0x01, want 0x08",
		"expect RC SEND_ONLY len=5":              "len is 4, want 5",
		"expect RC SEND_ONLY data=010800":        "byte 2 is 0x0f, want 0x00",
		"expect RC SEND_ONLY data=01080f1600":    "it has 4 bytes, want at least 5",
		"expect RC SEND_ONLY data=01 fill=8":     "",
		"expect RC SEND_ONLY data=01 fill=2":     "byte 1 is 0x08, want 0x02",
		"expect RC SEND_ONLY pad=0 len<=4 len>3": "",
	} {
		t.Run(text, func(t *testing.T) {
			w := newFakeWire()
			w.comes(t, 0, "RC SEND_ONLY psn=5 len=4 fill=1")
			wants(t, w.play(t, text), want)
		})
	}
}

// A packet that came before may be passed over, with another acknowledge
// request bit too; the one that is expected is taken also if it came before.
func TestRepeatsAreIgnored(t *testing.T) {
	script := "ignore repeats\nexpect RC SEND_ONLY psn=5\nexpect RC SEND_ONLY psn=6\n"
	for more, want := range map[string]string{
		"":                            "",
		"expect RC SEND_ONLY psn=5\n": "",
		"silence 1s":                  "",
		"ignore nothing\nsilence 1s":  "RC SEND_ONLY psn=5",
	} {
		w := newFakeWire()
		for _, text := range []string{"psn=5", "psn=5 ack", "psn=6", "psn=5", "psn=6 ack"} {
			w.comes(t, time.Millisecond, "RC SEND_ONLY "+text)
		}
		wants(t, w.play(t, script+more), want)
	}
}

func TestPacketsThatAreNoneAreTold(t *testing.T) {
	w := newFakeWire()
	w.comes(t, 0, "RC ACK psn=5 icrc=bad")
	wants(t, w.play(t, "expect RC ACK psn=5"), "a packet came with a bad ICRC: RC ACK psn=5")

	w = newFakeWire()
	w.due = []fakeArrival{{w.now, Arrival{fakePeer, fakeLocal.Addr(), []byte{1, 2, 3}}}}
	wants(t, w.play(t, "silence 1s"), "3 bytes came that are no packet: 010203")

	// Strangers are passed over, at an address of the script they are not.
	w = newFakeWire()
	w.due = []fakeArrival{{w.now, Arrival{fakeLocal, fakeLocal.Addr(), []byte{1, 2, 3}}}}
	wants(t, w.play(t, "silence 1s"), "")
	w.due = []fakeArrival{{w.now, Arrival{fakePeer, fakePeer.Addr(), []byte{1, 2, 3}}}}
	wants(t, w.play(t, "silence 1s"), "a packet came to 192.0.2.2")
}

// Without a target in the process, what it has to do is told.
func TestGoalsAreToldWhereThereIsNoTarget(t *testing.T) {
	s, err := Parse("x", "target\n mtu 256\n mr a 64\nend\npost send id=1 mr=a\nnote \"look\"\ncomplete send id=1")
	if err != nil {
		t.Fatal(err)
	}
	c := newFakeWire().config()
	var told []string
	c.Note = func(line string) { told = append(told, line) }
	r, err := s.Play(t.Context(), c)
	want := `["the peer is to have: mtu 256; mr a 64" "the peer: post send id=1 mr=a" "look" "the peer: complete send id=1"]`
	if got := fmt.Sprintf("%q", told); got != want || err != nil || r.Steps != 4 {
		t.Errorf("%d steps, %v, told %s\nwant %s", r.Steps, err, got, want)
	}
}

func TestParametersAndAddressesOfAScript(t *testing.T) {
	s, err := Parse("x", "local 192.0.2.7\npeer local+2\nparam a = 1\nparam b = a+1\ncheck b == 6")
	if err != nil {
		t.Fatal(err)
	}
	c := newFakeWire().config()
	c.Set = map[string]uint64{"a": 5}
	if _, err := s.Play(t.Context(), c); err != nil {
		t.Error(err)
	}
	if l, p := s.Local(), s.Peer(s.Local()); l.String() != "192.0.2.7" || p.String() != "192.0.2.9" {
		t.Errorf("addresses %v and %v", l, p)
	}
	if len(c.Set) != 1 {
		t.Errorf("playing has changed the caller's variables: %v", c.Set)
	}
}

func TestCancellingEndsAScript(t *testing.T) {
	s, err := Parse("x", "repeat 1000000000000\ndelay 1s\nend")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Play(ctx, newFakeWire().config()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
