package pingpong

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// What the originals do without being asked.
const (
	TCPPort      = 18515
	DefaultDepth = 500
	DefaultIters = 1000
	DefaultMTU   = 1024 // of RC and UC
	qkey         = 0x11111111
	ackTimeout   = 14 // 67 ms
	retryCount   = 7
	rnrTimer     = 12 // 0.64 ms
)

// MaxModeration is the highest Test.Moderation: the send queue holds four times
// as many messages.
const MaxModeration = 4096

// A Test says what the ends do. They have to agree on Type, Size, MTU and
// Iters, which they do not tell each other.
type Test struct {
	Type   verbs.QPType // RC, UC or UD
	Size   int          // bytes of a message
	MTU    int          // bytes of payload of a packet; UD has that of its network
	Depth  int          // receives that are posted
	Iters  int          // messages in each direction
	Events bool         // wait for completions instead of polling
	Check  bool         // compare the contents
	Times  bool         // measure between receives

	// Moderation is for how many messages there is one completion: that of the
	// last of them. The originals have 1.
	Moderation int

	AckTimeout int           // local ACK timeout of RC: 4.096 us << AckTimeout
	Limit      time.Duration // without anything happening, after which it fails

	Addr    netip.Addr  // of the device; not valid: chosen by the other end's
	Capture io.Writer   // gets the packets as pcapng, or nil
	Faults  link.Faults // what happens to packets that are sent
}

// DefaultSize returns the size of messages that the originals have.
func DefaultSize(t verbs.QPType) int {
	if t == verbs.UD {
		return 2048
	}
	return 4096
}

// NewTest returns what the originals do without flags.
func NewTest(t verbs.QPType) Test {
	return Test{
		Type: t, Size: DefaultSize(t), MTU: DefaultMTU, Depth: DefaultDepth, Iters: DefaultIters,
		Moderation: 1, AckTimeout: ackTimeout, Limit: 10 * time.Second,
	}
}

// MaxSize is the largest message in bytes.
const MaxSize = 1 << 30

// Verify says what is wrong with the parameters, before anything is opened.
func (t *Test) Verify() error {
	for _, p := range []struct {
		flag         string
		value, least int
		most         int
	}{
		{"size", t.Size, 1, MaxSize}, {"rx-depth", t.Depth, 1, 16384}, {"iters", t.Iters, 1, 1 << 30},
		{"cq-mod", t.Moderation, 1, MaxModeration}, {"qp-timeout", t.AckTimeout, 0, 31},
	} {
		if p.value < p.least || p.value > p.most {
			return rendezvous.Errorf(rendezvous.ErrParameter, "%s %d: %d to %d are possible", p.flag, p.value, p.least, p.most)
		}
	}
	if _, ok := roce.MTUOf(t.MTU); !ok {
		return rendezvous.Errorf(rendezvous.ErrParameter, "mtu %d: 256, 512, 1024, 2048 and 4096 are possible", t.MTU)
	}
	if t.Type == verbs.UD && t.Size > roce.MTU4096.Bytes() {
		return rendezvous.Errorf(rendezvous.ErrParameter, "size %d: a datagram is one packet, of %d bytes at most", t.Size, roce.MTU4096.Bytes())
	}
	return nil
}

// sendDepth is how many messages the send queue holds. Those without a completion
// leave it behind one that has a completion, and ask for an acknowledgement
// themselves when a quarter of it is in use.
func (t *Test) sendDepth() int {
	if t.Moderation == 1 {
		return 1
	}
	return 4 * t.Moderation
}

// timeout is the local ACK timeout.
func (t *Test) timeout() time.Duration { return 4096 * time.Nanosecond << t.AckTimeout }

// What the work requests of an end are known by, as in the originals.
const (
	recvID = 1
	sendID = 2
)

// An end is one end with its device. It belongs to one goroutine.
type end struct {
	test   Test
	client bool
	local  Dest
	peer   Dest

	executor *work.Inline
	dev      *verbs.Device
	pd       *verbs.PD
	ch       *verbs.CompChannel // with events
	cq       *verbs.CQ
	qp       *verbs.QP
	ah       *verbs.AH // UD
	mr       *verbs.MR
	grh      int // bytes before a received message
	// send is where messages are taken from: at a server, which answers with what
	// it got, where they arrive.
	send int
	mem  []byte

	checker *checker // or nil
	undo    []func() error
}

// openEnd opens the device and makes a queue pair that can receive when it is
// connected.
func openEnd(t Test, at netip.Addr, client bool) (*end, error) {
	t.Addr = at
	e := &end{test: t, client: client, executor: work.NewInline()}
	e.then(func() error { e.executor.Close(); return nil })
	if err := e.allocate(); err != nil {
		_ = e.close() // the first error says why
		return nil, err
	}
	return e, nil
}

// then adds to what close undoes.
func (e *end) then(f func() error) { e.undo = append(e.undo, f) }

// close gives all up, in the opposite order.
func (e *end) close() error {
	var errs []error
	for i := len(e.undo) - 1; i >= 0; i-- {
		errs = append(errs, e.undo[i]())
	}
	e.undo = nil
	return errors.Join(errs...)
}

func (e *end) allocate() (err error) {
	if e.dev, err = verbs.Open(verbs.Config{Addr: e.test.Addr, Executor: e.executor, Wrap: e.wrap}); err != nil {
		return explainOpen(e.test.Addr, err)
	}
	e.then(e.dev.Close)
	if err := e.checkMTU(); err != nil {
		return err
	}
	e.pd = e.dev.AllocPD()
	e.then(e.pd.Dealloc)
	e.layOut()
	if e.mr, err = e.pd.RegMR(e.mem, verbs.AccessLocalWrite); err != nil {
		return fmt.Errorf("register the memory of the messages: %w", err)
	}
	e.then(e.mr.Dereg)
	if e.test.Events {
		if e.ch, err = e.dev.CreateCompChannel(); err != nil {
			return fmt.Errorf("make a completion channel: %w", err)
		}
		e.then(e.ch.Close)
	}
	if e.cq, err = e.dev.CreateCQ(e.test.Depth+1, e.ch, nil); err != nil {
		return fmt.Errorf("make a completion queue for --rx-depth %d: %w", e.test.Depth, err)
	}
	e.then(e.cq.Destroy)
	return e.makeQP()
}

// wrap puts the capture next to the wire: it shows what the faults left over.
func (e *end) wrap(l link.Link) (link.Link, error) {
	if e.test.Capture != nil {
		l = link.NewCapture(l, e.test.Capture)
	}
	if f := e.test.Faults; f.Loss+f.Dup+f.Reorder+f.Corrupt > 0 {
		if !e.client {
			f.Seed++ // the two directions have their own fate
		}
		l = link.NewFaults(l, f)
	}
	return l, nil
}

// checkMTU wants the network of the device to carry the packets.
func (e *end) checkMTU() error {
	active := e.dev.Port().ActiveMTU.Bytes()
	switch {
	case e.test.Type == verbs.UD && e.test.Size > active:
		return fmt.Errorf("--size %d: the network of %v carries datagrams of at most %d bytes: choose a smaller one at both ends",
			e.test.Size, e.dev.Addr(), active)
	case e.test.Type != verbs.UD && e.test.MTU > active:
		return fmt.Errorf("--mtu %d: the network of %v carries packets of at most %d: choose that at both ends, or raise the MTU of the interface",
			e.test.MTU, e.dev.Addr(), active)
	}
	return nil
}

// layOut makes the memory of the messages.
func (e *end) layOut() {
	if e.test.Type == verbs.UD {
		e.grh = roce.GRHLen
	}
	one := e.grh + e.test.Size
	e.send = e.grh
	if e.client && e.test.Check {
		e.send += one // what comes back must not replace what is compared with it
	}
	e.mem = make([]byte, e.send+e.test.Size)
	sent := pattern{}
	switch {
	case e.client && e.test.Check:
		sent = ourPattern(e.test.Size)
		e.checker = newChecker(e.test.Size, sent)
	case e.test.Check:
		e.checker = newChecker(e.test.Size)
	}
	sent.fill(e.mem[e.send:], 0)
}

// message returns where messages arrive.
func (e *end) message() []byte { return e.mem[e.grh:][:e.test.Size] }

// makeQP takes a queue pair to INIT and posts the receives, so that the first
// message finds one.
func (e *end) makeQP() (err error) {
	e.qp, err = e.pd.CreateQP(verbs.QPInit{
		Type: e.test.Type, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: e.test.sendDepth(), MaxRecvWR: e.test.Depth, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return fmt.Errorf("make a queue pair: %w", err)
	}
	e.then(e.qp.Destroy)
	attr, mask := verbs.QPAttr{State: verbs.StateInit, Port: 1, QKey: qkey}, verbs.MaskInit
	if e.test.Type == verbs.UD {
		mask = verbs.MaskInitUD
	}
	if err = e.qp.Modify(attr, mask); err != nil {
		return fmt.Errorf("take the queue pair to INIT: %w", err)
	}
	if err = e.postRecvs(e.test.Depth); err != nil {
		return err
	}
	gid, err := e.dev.GID(0)
	e.local = Dest{QPN: e.qp.Num(), PSN: roce.NewPSN(rand.Uint32()), GID: gid}
	return err
}

// connect takes the queue pair to RTS, to the peer.
func (e *end) connect(peer Dest) (err error) {
	if err = checkPeer(e.dev.Addr(), peer); err != nil {
		return err
	}
	e.peer = peer
	mtu, _ := roce.MTUOf(e.test.MTU) // Verify has looked at it
	rtr := verbs.QPAttr{
		State: verbs.StateRTR, AV: verbs.AddressVector{DGID: peer.GID}, PathMTU: mtu, DestQPN: peer.QPN,
		RQPSN: peer.PSN, MaxDestRdAtomic: 1, MinRNRTimer: rnrTimer,
	}
	rts := verbs.QPAttr{
		State: verbs.StateRTS, Timeout: uint8(e.test.AckTimeout), RetryCnt: retryCount, RNRRetry: retryCount,
		SQPSN: e.local.PSN, MaxQPRdAtomic: 1,
	}
	toRTR, toRTS := verbs.MaskRTR, verbs.MaskRTS
	switch e.test.Type {
	case verbs.UC:
		toRTR, toRTS = verbs.MaskRTRUC, verbs.MaskRTSUC
	case verbs.UD:
		toRTR, toRTS = verbs.MaskRTRUD, verbs.MaskRTSUD
		if e.ah, err = e.pd.CreateAH(verbs.AHAttr{DGID: peer.GID, Port: 1}); err != nil {
			return fmt.Errorf("make an address handle for %v: %w", peer.GID, err)
		}
		e.then(e.ah.Destroy)
	}
	if err = e.qp.Modify(rtr, toRTR); err != nil {
		return fmt.Errorf("take the queue pair to RTR, to %v: %w", peer, err)
	}
	if err = e.qp.Modify(rts, toRTS); err != nil {
		return fmt.Errorf("take the queue pair to RTS: %w", err)
	}
	return nil
}
