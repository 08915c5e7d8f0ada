package verbs

import (
	"fmt"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
)

// An Opcode is what a work request asks for. The numbers are those of
// libibverbs.
type Opcode uint8

// The operations.
const (
	WRRDMAWrite         Opcode = 0
	WRRDMAWriteWithImm  Opcode = 1
	WRSend              Opcode = 2
	WRSendWithImm       Opcode = 3
	WRRDMARead          Opcode = 4
	WRAtomicCmpAndSwp   Opcode = 5
	WRAtomicFetchAndAdd Opcode = 6
	WRLocalInv          Opcode = 7
	WRBindMW            Opcode = 8
	WRSendWithInv       Opcode = 9
	WRFlush             Opcode = 14
	WRAtomicWrite       Opcode = 15
)

// An operation is what posting needs to know of an opcode.
type operation struct {
	name   string
	op     qp.Op
	known  bool
	inline bool // may carry inline data
	atomic bool
}

var operations = [...]operation{
	WRRDMAWrite:         {"RDMA_WRITE", qp.OpWrite, true, true, false},
	WRRDMAWriteWithImm:  {"RDMA_WRITE_WITH_IMM", qp.OpWriteImm, true, true, false},
	WRSend:              {"SEND", qp.OpSend, true, true, false},
	WRSendWithImm:       {"SEND_WITH_IMM", qp.OpSendImm, true, true, false},
	WRRDMARead:          {"RDMA_READ", qp.OpRead, true, false, false},
	WRAtomicCmpAndSwp:   {"ATOMIC_CMP_AND_SWP", qp.OpCompareSwap, true, false, true},
	WRAtomicFetchAndAdd: {"ATOMIC_FETCH_AND_ADD", qp.OpFetchAdd, true, false, true},
	WRLocalInv:          {"LOCAL_INV", qp.OpLocalInv, true, false, false},
	WRBindMW:            {"BIND_MW", qp.OpBindMW, true, false, false},
	WRSendWithInv:       {"SEND_WITH_INV", qp.OpSendInv, true, true, false},
	WRFlush:             {"FLUSH", qp.OpFlush, true, false, false},
	WRAtomicWrite:       {"ATOMIC_WRITE", qp.OpAtomicWrite, true, true, false},
}

// opcodes are the operations, one bit for each.
func opcodes(all ...Opcode) (set uint32) {
	for _, o := range all {
		set |= 1 << o
	}
	return set
}

// lacking are the operations that a type of queue pair does not have.
var lacking = map[QPType]uint32{
	UC:  ^opcodes(WRSend, WRSendWithImm, WRRDMAWrite, WRRDMAWriteWithImm, WRLocalInv, WRBindMW),
	UD:  ^opcodes(WRSend, WRSendWithImm),
	GSI: ^opcodes(WRSend, WRSendWithImm),
}

// String returns the name that libibverbs has, without its prefix.
func (o Opcode) String() string {
	if int(o) < len(operations) && operations[o].known {
		return operations[o].name
	}
	return fmt.Sprintf("WR_OPCODE(%d)", uint8(o))
}

// SendFlags say how a work request is executed. The numbers are those of
// libibverbs.
type SendFlags uint8

// The flags of work requests.
const (
	Fence     SendFlags = 1 << 0 // begins when all earlier READs and atomics are done
	Signaled  SendFlags = 1 << 1 // completes with an entry, also when it succeeds
	Solicited SendFlags = 1 << 2 // raises an event at a peer that waits for solicited ones
	Inline    SendFlags = 1 << 3 // the bytes are copied when it is posted; keys are not looked at
)

// qpFlags are the same flags as the transport has them.
var qpFlags = func() (t [16]qp.Flags) {
	for f := range t {
		for _, x := range [...]struct {
			here  SendFlags
			there qp.Flags
		}{{Fence, qp.Fence}, {Signaled, qp.Signaled}, {Solicited, qp.Solicited}, {Inline, qp.Inline}} {
			if SendFlags(f)&x.here != 0 {
				t[f] |= x.there
			}
		}
	}
	return t
}()

// An SGE is a piece of registered memory: a scatter or gather entry.
type SGE struct {
	Addr uint64 // of the first byte: see MR.Addr
	Len  uint32 // bytes; 0 is nothing
	LKey uint32 // of the region that holds them all
}

// A SendWR is a work request for the send queue. It may be reused when it was
// posted.
type SendWR struct {
	ID     uint64    // comes back in the completion
	Opcode Opcode    // what to do
	Flags  SendFlags // how to do it

	// Of WRFlush: how far it reaches, and whether it is for FlushLen bytes at
	// RemoteAddr or for all that RKey opens. It names no local memory.
	FlushType  FlushType
	FlushLevel FlushLevel

	SG []SGE // the local memory, copied when it is posted

	// Data is what is sent instead of SG with Inline. If it is nil and Inline
	// is set, EINVAL: addresses cannot be read without their keys.
	Data []byte

	// Of datagrams alone, all three. RemoteQPN is the queue pair there, or
	// 0xffffff for a multicast group. A RemoteQKey with its top bit stands for
	// the Q_Key of the queue pair that sends.
	AH         *AH
	RemoteQPN  uint32
	RemoteQKey uint32

	Imm        uint32 // immediate data, or the key to invalidate
	RemoteAddr uint64 // WRITE, READ, atomics, FLUSH
	RKey       uint32 // of the remote memory
	FlushLen   uint32 // FLUSH: bytes
	Compare    uint64 // compare-and-swap: what must be there
	Swap       uint64 // compare-and-swap: what is put there
	Add        uint64 // fetch-and-add

	BindMW *BindMW // of WRBindMW; may be reused when the request was posted
}

// A FlushType says how far a FLUSH reaches. The numbers are those of libibverbs.
type FlushType uint8

// The types, which may be combined.
const (
	FlushGlobal     FlushType = 1 << 0 // visible to all who can see the memory
	FlushPersistent FlushType = 1 << 1 // still there after a loss of power
)

// A FlushLevel says what a FLUSH is for. The numbers are those of libibverbs.
type FlushLevel uint8

// The levels.
const (
	FlushRange FlushLevel = 0 // a range of bytes
	FlushMR    FlushLevel = 1 // the whole region or window
)

// A RecvWR is a work request for the receive queue. It may be reused when it
// was posted.
type RecvWR struct {
	ID uint64 // comes back in the completion
	SG []SGE  // where the message goes, copied when it is posted
}

// PostSend posts work requests in order. On an error those before the returned
// index were posted, and that one and the rest were not; without one it is the
// number of requests. EINVAL: the request is not one that can be posted, or the
// state does not allow it. ENOMEM: the queue is full.
func (q *QP) PostSend(wrs ...SendWR) (bad int, err error) {
	if s := q.State(); s < StateRTS {
		return 0, EINVAL
	}
	sq, mu := q.n.SendQueue()
	mu.Lock()
	var no Errno
	for bad < len(wrs) {
		if no = q.put(sq, &wrs[bad]); no != 0 {
			break
		}
		bad++
	}
	if bad > 0 {
		sq.Publish()
	}
	mu.Unlock()
	if bad > 0 {
		q.n.Ring()
	}
	if no != 0 {
		return bad, no
	}
	return bad, nil
}

// put fills the next slot of the send queue.
func (q *QP) put(sq *qp.SendQueue, wr *SendWR) Errno {
	if int(wr.Opcode) >= len(operations) || wr.Flags > Fence|Signaled|Solicited|Inline {
		return EINVAL
	}
	o := &operations[wr.Opcode]
	if !o.known || len(wr.SG) > q.sendSGEs || q.lacks>>wr.Opcode&1 != 0 {
		return EINVAL
	}
	if q.datagrams() && (wr.AH == nil || wr.AH.pd != q.pd || wr.AH.dead.Load() || wr.RemoteQPN > 1<<24-1) {
		return EINVAL
	}
	if o.op == qp.OpBindMW && (!wr.BindMW.bindable() || len(wr.SG) > 0) {
		return EINVAL
	}
	inline := wr.Flags&Inline != 0
	if inline && (!o.inline || len(wr.Data) > q.inline || len(wr.SG) > 0) || !inline && wr.Data != nil {
		return EINVAL
	}
	w := sq.Reserve()
	if w == nil {
		return ENOMEM
	}
	w.ID, w.Op, w.Flags = wr.ID, o.op, qpFlags[wr.Flags]
	w.Imm, w.RemoteAddr, w.RKey = wr.Imm, wr.RemoteAddr, wr.RKey
	if o.atomic {
		if w.Compare, w.SwapAdd = wr.Compare, wr.Swap; o.op == qp.OpFetchAdd {
			w.SwapAdd = wr.Add
		}
	}
	if q.datagrams() {
		w.Peer, w.TOS, w.TTL = wr.AH.to, wr.AH.attr.TrafficClass, wr.AH.attr.HopLimit
		w.DestQPN, w.QKey = wr.RemoteQPN, wr.RemoteQKey
	}
	w.Data, w.SG = w.Data[:0], w.SG[:0]
	if inline {
		w.Data = append(w.Data, wr.Data...)
		w.Len = uint32(len(wr.Data))
		return 0
	}
	var n uint64
	w.SG, n = gather(w.SG, wr.SG)
	if n > 1<<31 {
		sq.Abandon(1)
		return EINVAL
	}
	w.Len = uint32(n)
	switch o.op {
	case qp.OpFlush:
		w.Placement, w.Level = roce.Placement(wr.FlushType), roce.FlushLevel(wr.FlushLevel)
		w.Len = wr.FlushLen
	case qp.OpBindMW:
		wr.BindMW.binding(&w.Bind)
	}
	return 0
}

// gather copies scatter entries into a slot, without the empty ones, and
// returns how many bytes they are.
func gather(to []qp.SGE, from []SGE) (sg []qp.SGE, n uint64) {
	for _, e := range from {
		if e.Len > 0 {
			to = append(to, qp.SGE(e))
			n += uint64(e.Len)
		}
	}
	return to, n
}

// PostRecv posts work requests for the receive queue, in order; see PostSend.
// It may be called in any state but RESET, and not with a shared receive queue.
func (q *QP) PostRecv(wrs ...RecvWR) (bad int, err error) {
	if q.State() == StateReset || q.shares {
		return 0, EINVAL
	}
	q.n.LockReceives()
	for bad < len(wrs) {
		wr := &wrs[bad]
		if len(wr.SG) > q.recvSGEs {
			err = EINVAL
			break
		}
		w := q.n.NextReceive()
		if w == nil {
			err = ENOMEM
			break
		}
		w.ID = wr.ID
		w.SG, _ = gather(w.SG[:0], wr.SG)
		q.n.PostReceive()
		bad++
	}
	q.n.UnlockReceives()
	return bad, err
}
