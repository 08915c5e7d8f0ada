package script

import (
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

func TestExpressionsHaveValues(t *testing.T) {
	v := vars{"a": 7, "a.va": 0x1000, "psn": 0xffffff}
	for _, c := range []struct {
		text string
		want uint64
	}{
		{"12", 12}, {"0x1f", 31}, {"0b101", 5}, {"4K", 4096}, {"1M", 1 << 20}, {"10ms", 10e6}, {"1.5us", 1500},
		{"2s", 2e9}, {"5ns", 5}, {"a", 7}, {"a.va+8", 0x1008}, {"1+2*3", 7}, {"(1+2)*3", 9}, {"1<<4|1", 17},
		{"2*3+4*5", 26}, {"10-3-2", 5}, {"7/2", 3}, {"7%4", 3}, {"-1", ^uint64(0)}, {"~0", ^uint64(0)}, {"5^1", 4},
		{"6&3", 2}, {"256>>4", 16}, {"1<<64", 0}, {"psn(psn+1)", 0}, {"rnr(12)", 0x2c}, {"credits(24)", 9},
		{"rnr_time(1)", 10000}, {"ack_timeout(14)", 4096 << 14}, {"pad(5)", 3}, {"ACK", 0x1f},
		{"NAK_SEQUENCE", 0x60}, {"a==7", 1}, {"a!=7", 0}, {"1+1>=2", 1}, {"3<2", 0}, {"2<=2", 1}, {"3>2", 1},
	} {
		l := &line{text: c.text}
		e := l.expr(1)
		if l.end(); l.err != nil {
			t.Errorf("%s: %v", c.text, l.err)
			continue
		}
		if got, err := e(v); err != nil || got != c.want {
			t.Errorf("%s = %d (%v), want %d", c.text, got, err, c.want)
		}
	}
}

func TestExpressionsWithoutValue(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"1/0", "1 / 0 has no value"}, {"1%0", "has no value"}, {"nobody", "nobody has no value: set it"},
		{"", "want a value"}, {"(1", "want )"}, {"psn(1", "want )"}, {"0xg", "is no number"}, {"1..2", "is no number"},
		{"1e400", "is no number"}, {"+", "want a value"}, {"1 2", `"2" is too much`},
		{strings.Repeat("(", 1000), "nested too deeply"}, {strings.Repeat("-", 1000) + "1", "nested too deeply"},
	} {
		_, err := ParseValue(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20s: got %v, want %s", c.text, err, c.want)
		}
	}
}

// wrongScripts are scripts, and a piece of what is said about each.
var wrongScripts = []struct{ text, want string }{
	{"sned RC ACK psn=1", "x:1: there is no statement sned"},
	{"\n\n  bogus", "x:3: "},
	{"send RC SEND", "there is no packet RC SEND"},
	{"send RC", "want an operation, such as SEND_ONLY, found the end of the line"},
	{"send RC SEND_ONLY va=1", "RC SEND_ONLY has no va"},
	{"send RC SEND_ONLY colour=1", "a packet has no colour"},
	{"send RC SEND_ONLY psn", "want = behind psn"},
	{"send RC SEND_ONLY !psn", "only a flag can be negated"},
	{"send RC SEND_ONLY icrc=fine", "icrc=fine: bad and none are possible"},
	{"send RC SEND_ONLY data=abc", "data: want hexadecimal digits in pairs"},
	{`send RC SEND_ONLY data="abc`, "the quotation mark has no end"},
	{"send RC SEND_ONLY from=here", "want an IP address"},
	{"send RC SEND_ONLY from=peer+x", "want a number up to 255"},
	{"send any psn=1", "any: say which with op="},
	{"expect RC ACK colour=1", "a packet has no colour"},
	{"expect RC ACK imm=1", "RC ACK has no imm"},
	{"expect RC ACK psn=?", "want the name of a variable"},
	{"expect RC ACK psn", "want =, != or another comparison"},
	{"expect", "want a packet"},
	{"ack msn=1", "want psn="},
	{"nak nothing psn=1", "nak nothing: sequence"},
	{"ignore RC ACK psn=?x", "what is ignored keeps nothing"},
	{"repeat 3\nsend RC ACK psn=1", "x:1: repeat has no end"},
	{"end", "no block is open"},
	{"target\nmtu 1024", "x:1: target has no end"},
	{"target\nend\ntarget\nend", "one target block is possible"},
	{"target\ncolour 1\nend", "a target has no colour"},
	{"target\ntype xrc\nend", "type xrc: rc, uc and ud are possible"},
	{"target\nstate SQD\nend", "state SQD: INIT, RTR and RTS are possible"},
	{"target\nmr a 1 sing\nend", "sing: none and flush_global"},
	{"target\nmw\nend", "want the name of a window"},
	{"target\nmw w 2 loud\nend", `"loud" is too much`},
	{"post dance id=1", "there is no such operation"},
	{"post bind mw=", "want a window"},
	{"post send to=there", "want an IP address"},
	{"send UD SEND_ONLY psn=1 to=", "want an address"},
	{"send UD SEND_ONLY psn=1 to=group+x", "want a number up to 255"},
	{"attach", "want an address"},
	{"detach here", "want an IP address"},
	{"grh", "want the name of a region"},
	{"grh a colour=1", "a GRH has no colour"},
	{"grh a from", "want = behind from"},
	{"srq", "srq: limit and fail are possible"},
	{"srq limit", "want a value"},
	{"srq fail now", `"now" is too much`},
	{"post send off=1", "a work request has no off, or not before mr="},
	{"post send mr=a colour=1", "a work request has no colour"},
	{"complete both id=1", "want recv or send"},
	{"complete send colour=1", "a completion has no colour"},
	{"memory a colour=1", "memory has no colour"},
	{"set a", "want = and a value"},
	{"note hello", "want hexadecimal digits"},
	{"delay 1s 2", `"2" is too much`},
	{strings.Repeat("repeat 2\n", 40), "nested too deeply"},
}

func TestWhatIsWrongWithAScriptIsSaid(t *testing.T) {
	for _, c := range wrongScripts {
		s, err := Parse("x", c.text)
		if err == nil || s != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// A text with many errors has the first ten told, each with its line.
func TestSeveralErrorsAreTold(t *testing.T) {
	_, err := Parse("x", strings.Repeat("bogus\n", 50))
	if got := strings.Count(err.Error(), "no statement"); got != maxErrors {
		t.Errorf("%d errors told, want %d", got, maxErrors)
	}
}

func TestCommentsAndQuotedHashes(t *testing.T) {
	for text, want := range map[string]string{
		"a # b": "a ", `a "#" # b`: `a "#" `, "#": "", `"\"#" # x`: `"\"#" `,
	} {
		if got := uncomment(text); got != want {
			t.Errorf("%q without comment: %q, want %q", text, got, want)
		}
	}
}

// Every field of every opcode can be set and is read back, and every packet
// that is built with the defaults is one that package roce reads.
func TestEveryFieldOfEveryOpcode(t *testing.T) {
	for name, o := range opcodes {
		text := name
		for _, f := range fields {
			if !f.in(o) || f.name == "pad" || f.name == "op" || f.name == "ver" {
				continue
			}
			text += " " + f.name + "=1"
		}
		if o.Has(roce.HasPayload) {
			text += " len=5 fill=3"
		}
		if o == roce.CNP {
			text += " data=00000000000000000000000000000000"
		}
		l := &line{text: text}
		tpl := l.template()
		if l.end(); l.err != nil {
			t.Fatalf("%s: %v", text, l.err)
		}
		b, err := tpl.build(vars{"qpn": 7})
		if err != nil {
			t.Fatal(err)
		}
		var e ends
		e.path = roce.Path{Src: fakeLocal, Dst: fakePeer, Ident: roce.Segment(0)}
		b, ok := e.seal(b)
		x, parsed := roce.Parse(b)
		if !ok || !parsed || e.damaged(x) {
			t.Fatalf("%s: sealed %v, parsed %v: %x", text, ok, parsed, b)
		}
		l = &line{text: text}
		w := l.pattern(func(string) bool { return false })
		if o == roce.CNP {
			w.payload = payload{} // reserved bytes are no payload
		}
		why, err := w.mismatch(vars{}, x)
		if err != nil || why != "" {
			t.Errorf("%s does not match itself: %s %v (%v)", text, why, err, x)
		}
		for i := range w.wants {
			w.wants[i].op = "!="
			if why, _ := w.mismatch(vars{}, x); why == "" {
				t.Errorf("%s: %s is not looked at", text, w.wants[i].name)
			}
			w.wants[i].op = "="
		}
	}
}

// FuzzParse: whatever the text is, it is read or refused, and what was read can
// be played on a wire that nobody is at the other end of.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "send RC SEND_ONLY psn=1 len=4 fill=1 ack", "repeat 2 as i\nset a = i*2\nend\ncheck a == 2",
		"target\n mr a 64 local_write\n mtu 256\nend\npost recv id=1 mr=a\ncomplete recv id=1 len=3",
		"expect RC ACK psn=?p syndrome!=ACK within=1ms after=2us", "raw 0a00 icrc=bad cut=1 from=peer+1",
		"ignore repeats\nignore any qp=3\nsilence 1ms\ndelay 1us\nmark\nlimit 3ms", "param a = 1\nlocal ::1\npeer local+1",
		"send any op=0x1f ver=3 padding=3 tail=00 cut=2", `note "a # b"`, "rnr 3 psn=1\nnak sequence psn=2\nack psn=3",
		"memory a off=1 data=00\nfill a len=3 fill=1\ncounter x >= 1\nstate ERR\nevent COMM_EST\narm recv solicited\nnotified no recv",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("fuzz", text)
		if err != nil || strings.Contains(text, "repeat") {
			return // a block can be repeated for years
		}
		w := newFakeWire()
		_, _ = s.Play(t.Context(), w.config())
	})
}
