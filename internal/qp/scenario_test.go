package qp

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

var update = flag.Bool("update", false, "write what the scenarios print into their files")

// TestScenarios plays testdata/*.txt: what to do, a line of dashes, and the
// trace that comes of it.
//
// Lines, with A as the host where none is named:
//
//	set [A|B|AB] mtu= psn= timeout= retry= rnr= rdatomic= window= cap= probe= endless=
//	    recvmtu= destrd= rnrtimer= access= shared= signalall= sparing frames= room=
//	    transport=rc|uc|ud qpn= qkey= ip=4|6
//	post [A|B] OP id= len= at= to= imm= inv= key= rkey= sge= add= cmp= swap=
//	    fence solicited unsignaled inline; of datagrams: qpn= qkey=
//	recv [A|B] id= len= key=
//	drop|dup|hold [A|B] psn= [n=] [skip=]   the fate of packets that A sends
//	delay [A|B] psn= by=
//	keep [A|B]                 what A sends is not given back until release [n=] [newest] [end]
//	stop [A|B]                 the host receives nothing any more; go ends that
//	forge [A|B] OP psn= len= at= of= key= code= pad= ask   a packet that A did not send
//	fail|drain|resume|redirect|reset|start [A|B], invalidate [A|B] key=, word [A|B] at= is=
//	change [A|B] timeout= retry= rnr= rdatomic= probe= destrd=   as set, in between
//	cap [A|B] n=               the device's cap of the window
//	turn [A|B] budget=         one run of both halves
//	step                       all that happens now
//	wait DURATION              let time pass
//	run                        until nothing happens any more
//	post flush: place= (1 global, 2 persistent) level= (1 region); forge FLUSH, too
//	post bind: window= key= at= of= access=
//	left [A|B]                 receives that are posted
//	show [A|B] at= n=          memory;  same A|B at= len= from= : equals the pattern of the other
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 35 {
		t.Fatalf("found %d scenarios (%v), want at least 35", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(text), "----\n")
			got := newStage(t).play(script)
			if *update {
				if err := os.WriteFile(name, []byte(script+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// A stage is two hosts and what lies between them.
type stage struct {
	t       *testing.T
	now     Instant
	shown   Instant
	hosts   map[string]*host
	deaf    map[string]bool
	send    map[string]*SenderConfig
	recv    map[string]*ResponderConfig
	fates   []*fate
	late    []parcel
	queue   map[string][]*frame.Frame
	trace   strings.Builder
	seen    map[string][7]int
	begun   bool
	budget  int // of a run, in packets
	kept    keeper
	middles int // MIDDLE packets in a row
}

// A fate is what becomes of a packet.
type fate struct {
	what, from string
	psn        int
	n, skip    int
	by         Instant
}

// A parcel is a packet that is delayed.
type parcel struct {
	f    *frame.Frame
	to   string
	at   Instant
	hold bool // until one more packet passed
}

// args are the words of a line behind the verb.
type args struct {
	t     *testing.T
	line  string
	words []string
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (a args) text(key string) (string, bool) {
	for _, w := range a.words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (a args) num(key string, other int) int {
	v, ok := a.text(key)
	if !ok {
		return other
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return n
}

func (a args) span(text string) Instant {
	d, err := time.ParseDuration(text)
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return Instant(d)
}

// host takes the name of a host off the words.
func (a *args) host() string {
	if len(a.words) > 0 && (a.words[0] == "A" || a.words[0] == "B" || a.words[0] == "AB") {
		h := a.words[0]
		a.words = a.words[1:]
		return h
	}
	return "A"
}

// newStage returns a stage with two hosts that have not started.
func newStage(t *testing.T) *stage {
	g := &stage{t: t, now: 1_000_000, budget: 64, hosts: map[string]*host{}, deaf: map[string]bool{},
		send: map[string]*SenderConfig{}, recv: map[string]*ResponderConfig{},
		queue: map[string][]*frame.Frame{}, seen: map[string][7]int{}, kept: keeper{}}
	g.shown = g.now
	for i, n := range []string{"A", "B"} {
		h := newHost(t, n, 64)
		h.addr = addrOf(n, 4)
		h.register(pattern(make([]byte, 1<<16), i*50), everything) // key 1
		h.register(make([]byte, 1<<16), 0)                         // key 2: nothing
		h.register(make([]byte, 1<<16), LocalWrite|RemoteWrite)    // key 3
		h.registerMemory()
		g.hosts[n] = h
		own, peer := uint32(qpnA), uint32(qpnB)
		if n == "B" {
			own, peer = peer, own
		}
		g.send[n] = &SenderConfig{QPN: own, DestQPN: peer, MTU: roce.MTU1024, Timeout: 14, RetryCount: 7,
			RNRRetry: 7, MaxRdAtomic: 4}
		g.recv[n] = &ResponderConfig{QPN: own, DestQPN: peer, MTU: roce.MTU1024, MaxDestRdAtomic: 4,
			MinRNRTimer: 12, Access: everything &^ LocalWrite}
	}
	return g
}

// play runs a script and returns the trace.
func (g *stage) play(script string) string {
	defer func() { g.middles = 0 }()
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		a := args{g.t, strings.TrimSpace(line), f[1:]}
		if f[0] != "set" {
			g.start()
		}
		g.do(f[0], a)
	}
	return g.trace.String()
}

// start starts all machines, once.
func (g *stage) start() {
	if g.begun {
		return
	}
	g.begun = true
	for n, h := range g.hosts {
		h.s.Start(*g.send[n])
		h.r.Start(*g.recv[n])
	}
}

// do carries out one line.
func (g *stage) do(verb string, a args) {
	n := a.host()
	h := g.hosts[n]
	switch verb {
	case "set":
		g.set(n, a)
	case "post":
		g.post(h, a)
	case "recv":
		key := uint32(a.num("key", 1))
		sg := SGE{addr(key, 32768+len(h.posted)*1024), uint32(a.num("len", 1024)), key}
		h.receive(uint64(a.num("id", 0)), sg)
	case "drop", "dup", "hold", "delay":
		f := &fate{what: verb, from: n, psn: a.num("psn", 0), n: a.num("n", 1), skip: a.num("skip", 0)}
		if by, ok := a.text("by"); ok {
			f.by = a.span(by)
		}
		g.fates = append(g.fates, f)
	case "stop", "go":
		g.deaf[n] = verb == "stop"
	case "forge":
		g.forge(n, a)
	case "fail", "drain", "resume", "change", "redirect", "reset", "start":
		g.modify(verb, n, h, a)
	case "invalidate":
		h.regions[a.num("key", 1)-1].gone = true
	case "word":
		for i := range 8 {
			h.regions[0].mem[a.num("at", 0)+i] = 0
		}
		h.Atomic(h.regions[0].mem[a.num("at", 0):], OpFetchAdd, 0, uint64(a.num("is", 0)))
		h.atomics = 0
	case "cap":
		h.cap = a.num("n", 1)
	case "turn":
		g.budget = a.num("budget", 64)
		g.turn(n)
		g.budget = 64
	case "keep", "release":
		if back := g.kept.do(verb, n, a); verb == "release" {
			g.print("%s   has %d frames back", n, back)
		}
	case "step":
		g.settle()
	case "wait":
		g.pass(g.now + a.span(a.words[0]))
	case "run":
		g.run()
	default:
		g.inspect(verb, n, h, a)
	}
}

// modify carries out the lines that change the state of a host.
func (g *stage) modify(verb, n string, h *host, a args) {
	switch verb {
	case "fail":
		h.s.Fail()
		h.r.Fail()
	case "drain":
		h.s.Drain()
	case "resume":
		h.s.Resume()
	case "change": // what follows is as for set
		g.set(n, a)
		h.s.Change(*g.send[n])
		h.r.SetMaxDestRdAtomic(g.recv[n].MaxDestRdAtomic)
	case "redirect":
		h.s.Redirected()
	case "reset":
		h.s.Reset()
		h.r.Reset()
	case "start":
		h.s.Start(*g.send[n])
		h.r.Start(*g.recv[n])
	}
}

// inspect carries out the lines that print or check.
func (g *stage) inspect(verb, n string, h *host, a args) {
	switch verb {
	case "show":
		at := a.num("at", 0)
		g.print("%s   memory at=%d %x", n, at, h.regions[a.num("key", 1)-1].mem[at:at+a.num("n", 8)])
	case "left":
		g.print("%s   receives posted: %d", n, len(h.posted))
	case "same":
		other := g.hosts[map[string]string{"A": "B", "B": "A"}[n]]
		at, from, size := a.num("at", 0), a.num("from", 0), a.num("len", 8)
		ok := string(h.regions[0].mem[at:at+size]) == string(other.regions[0].mem[from:from+size])
		g.print("%s   %d bytes at=%d as from=%d: %v", n, size, at, from, ok)
	case "count":
		var all []string
		for c, v := range h.counts {
			if v > 0 {
				all = append(all, fmt.Sprintf("%v=%d", Counter(c), v))
			}
		}
		g.print("%s   counts %s", n, strings.Join(all, " "))
	case "state":
		g.print("%s   sender %v waits for %v window=%d, responder %v expects %d", n, h.s.State(),
			h.s.Waiting(), h.s.Window(), h.r.State(), h.r.Expected())
	default:
		g.t.Fatalf("what is %q?", a.line)
	}
}

// set changes the configuration of one host or of both.
func (g *stage) set(n string, a args) {
	for _, one := range strings.Split(n, "") {
		s, r, h := g.send[one], g.recv[one], g.hosts[one]
		if m, ok := roce.MTUOf(a.num("mtu", s.MTU.Bytes())); ok {
			s.MTU, r.MTU = m, m
		}
		s.PSN, r.PSN = roce.PSN(a.num("psn", int(s.PSN))), roce.PSN(a.num("psn", int(r.PSN)))
		s.Timeout = uint8(a.num("timeout", int(s.Timeout)))
		s.RetryCount = uint8(a.num("retry", int(s.RetryCount)))
		s.RNRRetry = uint8(a.num("rnr", int(s.RNRRetry)))
		s.MaxRdAtomic = uint8(a.num("rdatomic", int(s.MaxRdAtomic)))
		s.MaxWindow = a.num("window", s.MaxWindow)
		s.MaxTrain, r.MaxTrain = a.num("train", s.MaxTrain), a.num("train", r.MaxTrain)
		s.EndlessRetry = s.EndlessRetry || a.has("endless")
		s.SignalAll = s.SignalAll || a.has("signalall")
		s.Sparing = s.Sparing || a.has("sparing")
		if p, ok := a.text("probe"); ok {
			s.Probe = a.span(p)
		}
		setUnreliable(s, r, h, a)
		h.cap = a.num("cap", h.cap)
		h.limit = a.num("frames", h.limit)
		h.room = a.num("room", h.room)
		r.MaxDestRdAtomic = uint8(a.num("destrd", int(r.MaxDestRdAtomic)))
		r.MinRNRTimer = roce.RNRTimer(a.num("rnrtimer", int(r.MinRNRTimer)))
		r.Access = Access(a.num("access", int(r.Access)))
		r.SharedReceive = r.SharedReceive || a.has("shared")
	}
}

var opNames = map[string]Op{"send": OpSend, "send-imm": OpSendImm, "send-inv": OpSendInv, "write": OpWrite,
	"write-imm": OpWriteImm, "read": OpRead, "cas": OpCompareSwap, "add": OpFetchAdd, "local-inv": OpLocalInv,
	"atomic-write": OpAtomicWrite, "flush": OpFlush, "bind": OpBindMW}

// post posts a request.
func (g *stage) post(h *host, a args) {
	op, ok := opNames[a.words[0]]
	if !ok {
		g.t.Fatalf("%s: no such operation", a.line)
	}
	ok = h.post(func(w *WQE) {
		w.ID, w.Op = uint64(a.num("id", 0)), op
		w.Imm = uint32(a.num("imm", a.num("inv", 0)))
		w.RKey = uint32(a.num("rkey", 1))
		w.RemoteAddr = addr(w.RKey, a.num("to", 0))
		g.address(h, w, a)
		w.Compare, w.SwapAdd = uint64(a.num("cmp", 0)), uint64(a.num("swap", a.num("add", 0)))
		for word, flag := range map[string]Flags{"fence": Fence, "solicited": Solicited, "inline": Inline} {
			if a.has(word) {
				w.Flags |= flag
			}
		}
		if a.has("unsignaled") {
			w.Flags &^= Signaled
		}
		size, at, key := a.num("len", 8), a.num("at", 0), uint32(a.num("key", 1))
		if op == OpLocalInv || fillMemory(w, a) || size == 0 {
			return
		}
		if w.Flags&Inline != 0 {
			w.Data = append(w.Data, h.regions[0].mem[at:at+size]...)
			return
		}
		pieces := a.num("sge", 1)
		for i := range pieces {
			n := size/pieces + (i+1)/pieces*(size%pieces)
			w.SG = append(w.SG, SGE{addr(key, at), uint32(n), key})
			at += n
		}
	})
	if !ok {
		g.print("%s   queue full", h.name)
	}
}
