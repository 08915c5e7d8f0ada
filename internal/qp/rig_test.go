package qp

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A fataler is a test, or a case of a property.
type fataler interface {
	Helper()
	Fatalf(format string, a ...any)
}

// A region is registered memory of a host. Its key is its index plus one, its
// address the key times regionGap.
type region struct {
	mem    []byte
	rights Access
	gone   bool
}

const regionGap = 1 << 32

// A host is the device around one queue pair: an Env without any I/O.
type host struct {
	t    fataler
	name string
	s    Sender
	r    Responder
	q    *SendQueue

	regions []region
	posted  []*RecvWQE
	taken   *RecvWQE // in use by the Responder
	givenUp int
	flushes []FlushTarget
	onFlush func()
	bound   []Binding
	free    []*frame.Frame
	made    int
	limit   int // most frames there may be; 0: any number
	out     []*frame.Frame
	refs    map[uint64]int // frames out, by token; nil: not counted

	sent     []CQE // completions
	received []CQE
	room     int // completions that still fit; below zero: any number
	cap      int // device's window cap
	events   []Event
	fatal    []Status
	counts   [Counters]int
	atomics  int
	answered []roce.PSN // what inOrder saw
	killed   []uint32
	onSend   func(*CQE)
	onRecv   func(*CQE)
	onBack   func(wake bool)
	inbox    *[]*frame.Frame   // packets that wait; nil: none
	near     func() *Responder // nil: all goes in packets
	handed   int               // messages that did not
	clock    func() Instant    // nil: Step is told the time
	addr     frame.Addr
}

// Queue pair numbers of the two hosts.
const (
	qpnA = 0x11
	qpnB = 0x22
)

// newHost returns a host with a send queue of that depth.
func newHost(t fataler, name string, depth int) *host {
	h := &host{t: t, name: name, q: NewSendQueue(depth, 8, 512), room: -1, cap: 1 << 20}
	h.s.Init(h, h.q)
	h.r.Init(h, 16)
	return h
}

// register adds a region and returns its key.
func (h *host) register(mem []byte, rights Access) uint32 {
	h.regions = append(h.regions, region{mem: mem, rights: rights})
	return uint32(len(h.regions))
}

// addr is the address of byte off of a region.
func addr(key uint32, off int) uint64 { return uint64(key)*regionGap + uint64(off) }

func (h *host) find(key uint32, at uint64, n int) ([]byte, Access, bool) {
	if key == 0 || int(key) > len(h.regions) || n <= 0 {
		return nil, 0, false
	}
	g := &h.regions[key-1]
	off := at - uint64(key)*regionGap
	if g.gone || off > uint64(len(g.mem)) || uint64(n) > uint64(len(g.mem))-off {
		return nil, 0, false
	}
	return g.mem[off : off+uint64(n)], g.rights, true
}

func (h *host) Frame() *frame.Frame {
	if n := len(h.free); n > 0 {
		f := h.free[n-1]
		h.free = h.free[:n-1]
		return f
	}
	if h.limit > 0 && h.made == h.limit {
		return nil
	}
	h.made++
	return &frame.Frame{Owner: h, Payload: make([][]byte, 0, 8)}
}

func (h *host) Emit(f *frame.Frame) {
	if !f.Handed() {
		h.t.Fatalf("%s: a frame was emitted that is out", h.name)
	}
	if h.refs != nil {
		h.refs[f.Token]++
	}
	h.out = append(h.out, f)
}

func (h *host) FrameBack(f *frame.Frame) {
	if h.refs != nil {
		h.refs[f.Token]--
	}
	wake := h.s.FrameBack(f)
	f.Reset()
	h.free = append(h.free, f)
	if h.onBack != nil {
		h.onBack(wake)
	}
}

func (h *host) Local(key uint32, at uint64, n int, write bool) ([]byte, bool) {
	mem, rights, ok := h.find(key, at, n)
	return mem, ok && (!write || rights&LocalWrite != 0)
}

func (h *host) Remote(key uint32, at uint64, n int, need Access) ([]byte, bool) {
	mem, rights, ok := h.find(key, at, n)
	return mem, ok && rights&need == need
}

func (h *host) Atomic(mem []byte, op Op, compare, swapAdd uint64) uint64 {
	h.atomics++
	before := binary.NativeEndian.Uint64(mem)
	switch {
	case op == OpAtomicWrite:
		binary.NativeEndian.PutUint64(mem, swapAdd)
	case op == OpFetchAdd:
		binary.NativeEndian.PutUint64(mem, before+swapAdd)
	case before == compare:
		binary.NativeEndian.PutUint64(mem, swapAdd)
	}
	return before
}

func (h *host) Now() Instant {
	if h.clock == nil {
		h.t.Fatalf("%s: a machine that was told the time asks for it", h.name)
	}
	return h.clock()
}

func (h *host) Near(uint32) *Responder {
	if h.near == nil {
		return nil
	}
	return h.near()
}

func (h *host) Try(key uint32, at uint64, n int, need Access) ([]byte, bool) {
	mem, rights, ok := h.find(key, at, n)
	return mem, ok && rights&need == need
}

func (h *host) Handed(roce.Opcode, int, int) { h.handed++ }

func (h *host) invalidate(key uint32) bool {
	if key == 0 || int(key) > len(h.regions) || h.regions[key-1].gone {
		return false
	}
	h.regions[key-1].gone = true
	h.killed = append(h.killed, key)
	return true
}

func (h *host) InvalidateLocal(key uint32) bool  { return h.invalidate(key) }
func (h *host) InvalidateRemote(key uint32) bool { return h.invalidate(key) }

func (h *host) TakeReceive() *RecvWQE {
	if len(h.posted) == 0 {
		return nil
	}
	if h.taken != nil {
		h.t.Fatalf("%s: a receive is taken while one is in use", h.name)
	}
	h.taken = h.posted[0]
	h.posted = h.posted[1:]
	return h.taken
}

func (h *host) GiveUpReceive(w *RecvWQE) {
	if w != h.taken {
		h.t.Fatalf("%s: receive %p is given up, want %p", h.name, w, h.taken)
	}
	h.taken = nil
	h.givenUp++
}

func (h *host) Waiting(n int) *frame.Frame {
	if h.inbox == nil {
		return nil
	}
	var first *frame.Frame
	for _, f := range slices.Backward(*h.inbox) {
		if isRequest(f) {
			f.Next, first = first, f
			n--
		}
	}
	if n >= 0 {
		return nil
	}
	return first
}

func (h *host) fits() bool {
	if h.room == 0 {
		return false
	}
	h.room--
	return true
}

func (h *host) CompleteSend(e *CQE) bool {
	if !h.fits() {
		return false
	}
	if h.onSend != nil {
		h.onSend(e)
	} else {
		h.sent = append(h.sent, *e)
	}
	return true
}

func (h *host) CompleteReceive(w *RecvWQE, e *CQE) bool {
	if w != h.taken {
		h.t.Fatalf("%s: receive %p is completed, want %p", h.name, w, h.taken)
	}
	h.taken = nil
	if !h.fits() {
		return false
	}
	if h.onRecv != nil {
		h.onRecv(e)
	} else {
		h.received = append(h.received, *e)
	}
	return true
}

func (h *host) WindowCap() int  { return h.cap }
func (h *host) Raise(e Event)   { h.events = append(h.events, e) }
func (h *host) Fatal(s Status)  { h.fatal = append(h.fatal, s) }
func (h *host) Count(c Counter) { h.counts[c]++ }

// spread passes an error of one half on to the other, as the device does.
func (h *host) spread() {
	if h.s.State() == Failed && h.r.State() == Running {
		h.r.Fail()
	}
	if h.r.State() == Failed && h.s.State() != Failed {
		h.s.Fail()
	}
}

// post publishes one request.
func (h *host) post(fill func(w *WQE)) bool {
	w := h.q.Reserve()
	if w == nil {
		return false
	}
	w.SG, w.Data, w.Flags, w.Len = w.SG[:0], w.Data[:0], Signaled, 0
	fill(w)
	if w.Len == 0 {
		for _, e := range w.SG {
			w.Len += e.Len
		}
		w.Len += uint32(len(w.Data))
	}
	h.q.Publish()
	return true
}

// receive posts a receive of one entry.
func (h *host) receive(id uint64, sg ...SGE) {
	h.posted = append(h.posted, &RecvWQE{ID: id, SG: sg})
}

// takeOut returns what the host emitted since.
func (h *host) takeOut() []*frame.Frame {
	out := h.out
	h.out = nil
	return out
}

// isRequest reports whether a frame goes to the Responder.
func isRequest(f *frame.Frame) bool {
	return !roce.Opcode(f.Head[0]).Has(roce.IsResponse) // as the device does: also a reserved opcode
}

// clone copies a frame with its payload: what a network that delays or
// duplicates has to do.
func clone(f *frame.Frame) *frame.Frame {
	c := &frame.Frame{Head: f.Head, HeadLen: f.HeadLen, Pad: f.Pad, Len: f.Len, Train: f.Train}
	if f.Len > 0 {
		var b []byte
		for _, part := range f.Payload {
			b = append(b, part...)
		}
		c.Payload = [][]byte{b}
	}
	return c
}

// line prints a frame as scenarios show it.
func line(f *frame.Frame) string {
	h, _, ok := roce.ParseHeaders(f.Head[:f.HeadLen])
	if !ok {
		b := (*roce.BTH)(f.Head[:])
		return fmt.Sprintf("psn=%d %v len=%d", b.PSN(), b.Opcode(), f.Len)
	}
	s := fmt.Sprintf("psn=%d %s", h.BTH().PSN(), name(h))
	if h.BTH().AckReq() {
		s += " ack"
	}
	if h.BTH().Solicited() {
		s += " solicited"
	}
	if x := h.DETH(); x != nil {
		s += fmt.Sprintf(" to=%#x qkey=%#x from=%#x", h.BTH().DestQP(), x.QKey(), x.SrcQP())
	}
	if f.Len > 0 {
		s += fmt.Sprintf(" len=%d", f.Len)
	}
	if f.Train > 0 {
		s += fmt.Sprintf(" train=%d", f.Train)
	}
	if x := h.RETH(); x != nil {
		s += fmt.Sprintf(" at=%d of=%d", x.VA()%regionGap, x.DMALen())
	}
	if x := h.FETH(); x != nil {
		s += fmt.Sprintf(" place=%d level=%d", x.Placement(), x.Level())
	}
	if x := h.AtomicETH(); x != nil {
		s += fmt.Sprintf(" at=%d", x.VA()%regionGap)
	}
	if x := h.AtomicAckETH(); x != nil {
		s += fmt.Sprintf(" before=%d", x.Original())
	}
	if x := h.ImmDt(); x != nil {
		s += fmt.Sprintf(" imm=%d", x.Value())
	}
	if x := h.IETH(); x != nil {
		s += fmt.Sprintf(" inv=%d", x.RKey())
	}
	return s
}

// name is the opcode, or what an acknowledgement says.
func name(h roce.Headers) string {
	if h.Opcode() != roce.RCAck {
		return h.Opcode().Name()
	}
	return fmt.Sprintf("%v msn=%d", h.AETH().Syndrome(), h.AETH().MSN())
}

// pattern fills memory with bytes that tell their position.
func pattern(b []byte, seed int) []byte {
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed)
	}
	return b
}
