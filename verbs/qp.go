package verbs

import (
	"github.com/gantry-rdma/gantry/internal/nic"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// A QPType is the transport service of a queue pair. The numbers are those of
// libibverbs.
type QPType uint8

// The transport services.
const (
	GSI QPType = 1 // queue pair 1, for management: UD with a Q_Key of its own
	RC  QPType = 2 // reliable connection
	UC  QPType = 3 // unreliable connection: what is lost is lost
	UD  QPType = 4 // unreliable datagram: each packet goes where its address handle says
)

var transports = map[QPType]roce.Transport{GSI: roce.UD, RC: roce.RC, UC: roce.UC, UD: roce.UD}

// A QPState is where a queue pair is in its life. The numbers are those of
// libibverbs.
type QPState uint8

// The states of a queue pair.
const (
	StateReset QPState = 0
	StateInit  QPState = 1
	StateRTR   QPState = 2 // ready to receive
	StateRTS   QPState = 3 // ready to send
	StateSQD   QPState = 4 // send queue drained: no request begins
	StateErr   QPState = 6 // all work requests are flushed
)

// String returns the state's name.
func (s QPState) String() string { return nic.State(s).String() }

// QPCap are the sizes of a queue pair.
type QPCap struct {
	MaxSendWR, MaxRecvWR   int // work requests in a queue
	MaxSendSGE, MaxRecvSGE int // scatter entries in one
	MaxInline              int // bytes of inline data
}

// QPInit says how a queue pair is made.
type QPInit struct {
	Type     QPType        // its transport service
	SendCQ   *CQ           // where sends complete
	RecvCQ   *CQ           // where receives complete; may be the same
	SRQ      *SRQ          // where receives come from; nil: a queue of its own
	Cap      QPCap         // its sizes; Query returns them unchanged
	SQSigAll bool          // each send completes with an entry, also without Signaled
	Executor work.Executor // nil: that of the device. Not closed with the queue pair
	User     any           // comes back with QP.User
}

// A QP is a queue pair.
type QP struct {
	// What posting looks at comes first, on one line of memory.
	n        *nic.QP
	pd       *PD
	lacks    uint32 // operations: see lacking
	typ      QPType
	shares   bool // receives are those of a shared queue
	inline   int
	sendSGEs int
	recvSGEs int

	init QPInit
	attr QPAttr // what Modify was told; under the lock of n
}

// CreateQP makes a queue pair in state RESET. EBUSY: there is a queue pair 1
// already.
func (p *PD) CreateQP(c QPInit) (*QP, error) {
	t, ok := transports[c.Type]
	if !ok {
		return nil, invalid("queue pair type %d", c.Type)
	}
	if c.SendCQ == nil || c.RecvCQ == nil {
		return nil, invalid("queue pair without completion queues")
	}
	var srq *nic.SRQ
	if c.SRQ != nil {
		srq, c.Cap.MaxRecvWR, c.Cap.MaxRecvSGE = c.SRQ.n, 0, 0
	}
	q := &QP{pd: p, typ: c.Type, init: c, lacks: lacking[c.Type], shares: c.SRQ != nil, inline: c.Cap.MaxInline, sendSGEs: c.Cap.MaxSendSGE, recvSGEs: c.Cap.MaxRecvSGE}
	n, err := p.d.n.NewQP(nic.QPConfig{
		Owner: q, PD: p.n, Transport: t, Management: c.Type == GSI, SendCQ: c.SendCQ.n, RecvCQ: c.RecvCQ.n, SRQ: srq,
		SendDepth: c.Cap.MaxSendWR, RecvDepth: c.Cap.MaxRecvWR,
		SendSGE: c.Cap.MaxSendSGE, RecvSGE: c.Cap.MaxRecvSGE, Inline: c.Cap.MaxInline,
		SignalAll: c.SQSigAll, Executor: c.Executor,
	})
	if err != nil {
		return nil, numbered(err)
	}
	q.n = n
	return q, nil
}

// Num returns the number of the queue pair, 24 bits.
func (q *QP) Num() uint32 { return q.n.Num() }

// datagrams reports whether each request says where it goes.
func (q *QP) datagrams() bool { return q.typ == UD || q.typ == GSI }

// User returns what CreateQP was given.
func (q *QP) User() any { return q.init.User }

// PD returns the protection domain.
func (q *QP) PD() *PD { return q.pd }

// State returns where the queue pair is.
func (q *QP) State() QPState {
	s, _ := q.n.State()
	return QPState(s)
}

// Destroy ends the queue pair. Work requests that are not done do not complete.
// When it returns nil, no packet refers to their memory. EBUSY: a peer has not
// taken all packets, so the memory must stay; call Destroy again.
func (q *QP) Destroy() error { return numbered(q.n.Destroy()) }
