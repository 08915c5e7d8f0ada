//go:build linux

package interop

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/test/interop/kit"
	"github.com/gantry-rdma/gantry/verbs"
)

// An end is Gantry's: a device, memory and a queue pair, joined to the program
// qp in the guest.
type end struct {
	x    *row
	dev  *verbs.Device
	pd   *verbs.PD
	cq   *verbs.CQ
	srq  *verbs.SRQ
	qp   *verbs.QP
	mr   *verbs.MR
	mem  []byte
	peer *kit.Process

	raddr  uint64
	rkey   uint32
	remote uint32    // the guest's queue pair
	ah     *verbs.AH // of datagrams
}

// Of both ends.
const (
	memory   = 2 << 20 // bytes
	firstPSN = 0xfffff0
	goFile   = "/tmp/go"
)

// A plan says how two ends are joined.
type plan struct {
	six      bool         // IPv6
	kind     verbs.QPType // 0: RC
	mtu      int          // path MTU; 0: 1024
	psn      roce.PSN
	srq      bool // at Gantry
	spared   bool // requests say themselves whether they have a completion
	timeout  uint8
	retry    uint8
	rnrRetry uint8
	keys     []string // more for the guest's program
	steps    []string // of the guest's program
}

// join makes an end, starts the guest's program and connects the two. The
// program does its steps at once, up to one that is "go".
func (x *row) join(p plan) *end {
	x.t.Helper()
	if p.mtu == 0 {
		p.mtu = 1024
	}
	if p.psn == 0 {
		p.psn = 0x100
	}
	if p.kind == 0 {
		p.kind = verbs.RC
	}
	addr, peer := host4, guest4
	if p.six {
		addr, peer = host6, guest6
	}
	e := &end{x: x}
	e.open(addr, p)
	masks := masksOf(p.kind)
	x.must(e.qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: remote, QKey: qkey}, masks[0]))
	dgid := addr.String()
	if addr.Is4() {
		dgid = "::ffff:" + dgid
	}
	argv := []string{"qp", nameOf(p.kind), fmt.Sprintf("dqpn=%d", e.qp.Num()), fmt.Sprintf("dpsn=%d", p.psn), fmt.Sprintf("rkey=%d", e.mr.RKey()),
		fmt.Sprintf("raddr=%d", e.mr.Addr()), fmt.Sprintf("gid=%d", x.gids[peer]), "dgid=" + dgid,
		fmt.Sprintf("psn=%d", p.psn), fmt.Sprintf("mtu=%d", p.mtu), fmt.Sprintf("size=%d", memory), "go=" + goFile + x.token()}
	e.peer = x.spawn(append(append(append(argv, p.keys...), "--"), p.steps...)...)
	// What it says first does not mean that its steps up to "go" are done.
	said := "ready "
	if slices.Contains(p.steps, "go") {
		said = "waiting"
	}
	x.must(e.peer.Await(x.ctx, said))
	e.connect(p, peer)
	return e
}

// nameOf is the name of a transport service.
func nameOf(kind verbs.QPType) string {
	return map[verbs.QPType]string{verbs.RC: "rc", verbs.UC: "uc", verbs.UD: "ud"}[kind]
}

// masksOf returns the attributes for INIT, RTR and RTS.
func masksOf(kind verbs.QPType) [3]verbs.AttrMask {
	switch kind {
	case verbs.UC:
		return [3]verbs.AttrMask{verbs.MaskInitUC, verbs.MaskRTRUC, verbs.MaskRTSUC}
	case verbs.UD:
		return [3]verbs.AttrMask{verbs.MaskInitUD, verbs.MaskRTRUD, verbs.MaskRTSUD}
	}
	return [3]verbs.AttrMask{verbs.MaskInit, verbs.MaskRTR, verbs.MaskRTS}
}

// qkey is that of both ends.
const qkey = 0x11111111

// sendDepth is that of Gantry's send queue.
const sendDepth = 256

// remote are the rights of the peer.
const remote = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// open makes the device, and a queue pair.
func (e *end) open(addr netip.Addr, p plan) {
	e.openDevice(addr)
	x := e.x
	var err error
	init := verbs.QPInit{Type: p.kind, SendCQ: e.cq, RecvCQ: e.cq, SQSigAll: !p.spared,
		Cap: verbs.QPCap{MaxSendWR: sendDepth, MaxRecvWR: 256, MaxSendSGE: 1, MaxRecvSGE: 1}}
	if p.srq {
		e.srq, err = e.pd.CreateSRQ(verbs.SRQInit{MaxWR: 256, MaxSGE: 1})
		x.must(err)
		init.SRQ, init.Cap.MaxRecvWR = e.srq, 0
	}
	e.qp, err = e.pd.CreateQP(init)
	x.must(err)
}

// openDevice makes the device, registers memory and makes a completion queue.
func (e *end) openDevice(addr netip.Addr) {
	x := e.x
	var err error
	e.dev, err = verbs.Open(verbs.Config{Addr: addr, MTU: 0})
	x.must(err)
	x.after(func() {
		for _, c := range e.dev.Counters() {
			if c.Value > 0 {
				x.ours[c.Name] += c.Value
			}
		}
		if err := e.dev.Close(); err != nil {
			x.t.Error(err)
		}
	})
	e.pd = e.dev.AllocPD()
	e.mem = make([]byte, memory)
	e.mr, err = e.pd.RegMR(e.mem, verbs.AccessLocalWrite|remote)
	x.must(err)
	e.cq, err = e.dev.CreateCQ(1024, nil, nil)
	x.must(err)
}

// connect reads where the guest's queue pair is and takes the own one to RTS.
func (e *end) connect(p plan, peer netip.Addr) {
	x := e.x
	var qpn, psn uint32
	_, line, _ := strings.Cut(e.peer.Output(), "ready ")
	_, err := fmt.Sscanf(line, "qpn %v psn %v rkey %v addr %v", &qpn, &psn, &e.rkey, &e.raddr)
	x.must(err)
	mtu, _ := roce.MTUOf(p.mtu)
	masks := masksOf(p.kind)
	e.remote = qpn
	if p.kind == verbs.UD {
		e.ah, err = e.pd.CreateAH(verbs.AHTo(peer))
		x.must(err)
	}
	x.must(e.qp.Modify(verbs.QPAttr{State: verbs.StateRTR, AV: verbs.AVTo(peer), PathMTU: mtu, DestQPN: qpn,
		RQPSN: roce.NewPSN(psn), MaxDestRdAtomic: 16, MinRNRTimer: 12}, masks[1]))
	a := verbs.QPAttr{State: verbs.StateRTS, SQPSN: p.psn, Timeout: 18, RetryCnt: 7, RNRRetry: 7, MaxQPRdAtomic: 16}
	if p.timeout != 0 {
		a.Timeout = p.timeout
	}
	if p.retry != 0 {
		a.RetryCnt = p.retry
	}
	if p.rnrRetry != 0 {
		a.RNRRetry = p.rnrRetry
	}
	x.must(e.qp.Modify(a, masks[2]))
}

// token tells the files of one row from those of another.
func (x *row) token() string { return strings.ReplaceAll(x.t.Name(), "/", "-") }

// release lets the guest's program pass the step "go".
func (e *end) release() { e.x.must(e.x.guest.Write(e.x.ctx, goFile+e.x.token(), "")) }

// finish waits for the guest's program.
func (e *end) finish() { e.x.must(e.peer.Wait(e.x.ctx)) }

// spawn starts a program in the guest, which ends with the row.
func (x *row) spawn(argv ...string) *kit.Process {
	x.t.Helper()
	p, err := x.guest.Start(limit, argv...)
	x.must(err)
	x.after(p.Kill)
	return p
}

// must ends the row on an error.
func (x *row) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// wait waits for a completion, which has to have a status.
func (e *end) wait(status verbs.WCStatus) verbs.WC {
	e.x.t.Helper()
	wc := e.waitAny()
	if wc.Status != status {
		e.x.t.Fatalf("completed with %v, want %v; the guest: %s", wc.Status, status, e.peer.Output())
	}
	return wc
}

// waitAny waits for a completion.
func (e *end) waitAny() verbs.WC {
	e.x.t.Helper()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	var wc [1]verbs.WC
	for e.cq.Poll(wc[:]) == 0 {
		select {
		case <-tick.C:
		case <-e.x.ctx.Done():
			e.x.t.Fatalf("no completion: %v; the guest: %s", context.Cause(e.x.ctx), e.peer.Output())
		}
	}
	return wc[0]
}

// send is a SEND of n bytes at off.
func (e *end) send(off, n int) verbs.SendWR {
	return verbs.SendWR{Opcode: verbs.WRSend, SG: []verbs.SGE{e.mr.SGE(off, n)}, AH: e.ah, RemoteQPN: e.remote, RemoteQKey: qkey}
}

// to is a WRITE, READ or atomic between off here and roff there.
func (e *end) to(op verbs.Opcode, off, n, roff int) verbs.SendWR {
	return verbs.SendWR{Opcode: op, SG: []verbs.SGE{e.mr.SGE(off, n)}, RemoteAddr: e.raddr + uint64(roff), RKey: e.rkey}
}

// drain returns the completions that are there, and that come within a time in
// which nothing else happens.
func (e *end) drain() (all []verbs.WC) {
	quiet := time.Now()
	for tick := time.Tick(time.Millisecond); time.Since(quiet) < time.Second; <-tick {
		var wc [16]verbs.WC
		if n := e.cq.Poll(wc[:]); n > 0 {
			all, quiet = append(all, wc[:n]...), time.Now()
		}
	}
	return all
}

// post posts work requests.
func (e *end) post(wrs ...verbs.SendWR) {
	e.x.t.Helper()
	_, err := e.qp.PostSend(wrs...)
	e.x.must(err)
}

// receive posts a receive.
func (e *end) receive(off, n int) {
	e.x.t.Helper()
	wr := verbs.RecvWR{SG: []verbs.SGE{e.mr.SGE(off, n)}}
	var err error
	if e.srq != nil {
		_, err = e.srq.PostRecv(wr)
	} else {
		_, err = e.qp.PostRecv(wr)
	}
	e.x.must(err)
}

// fill writes the pattern that the guest's program knows.
func (e *end) fill(off, n, seed int) { copy(e.mem[off:off+n], pattern(n, seed)) }

// same wants the pattern to be there.
func (e *end) same(off, n, seed int) {
	e.x.t.Helper()
	if want := pattern(n, seed); !bytes.Equal(e.mem[off:off+n], want) {
		i := 0
		for e.mem[off+i] == want[i] {
			i++
		}
		e.x.t.Errorf("byte %d of %d is %#x, want %#x", i, n, e.mem[off+i], want[i])
	}
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed + 7*i + i/251)
	}
	return b
}

// scanLast reads the number behind the last occurrence of a word.
func scanLast(text, word string, n *int) error {
	i := strings.LastIndex(text, word)
	if i < 0 {
		return fmt.Errorf("no %q in %q", word, text)
	}
	_, err := fmt.Sscan(text[i+len(word):], n)
	return err
}

// awaitCounter waits until the device has counted something.
func (x *row) awaitCounter(e *end, name string) {
	x.t.Helper()
	for tick := time.Tick(time.Millisecond); e.dev.Counter(name) == 0; {
		select {
		case <-tick:
		case <-x.ctx.Done():
			x.t.Fatalf("the device counts no %s", name)
		}
	}
}
