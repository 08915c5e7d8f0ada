package verbs_test

import (
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// An end is one side of a connection.
type end struct {
	t    testing.TB
	dev  *Device
	pd   *PD
	cq   *CQ // of receives; sends have their own
	scq  *CQ
	qp   *QP
	mem  []byte
	mr   *MR
	ah   *AH // of datagrams: to the other end
	seen map[*CQ][]WC
}

// A rig is two ends that are connected.
type rig struct {
	t      testing.TB
	a, b   *end
	starts int // how often startAfresh was called
}

// settings are what a test may want otherwise.
type settings struct {
	cap      QPCap
	cqe      int
	mem      int
	access   Access
	timeout  uint8
	retry    uint8
	rnrRetry uint8
	rnrTimer roce.RNRTimer
	mtu      roce.MTU
	rdAtomic uint8
	psn      roce.PSN
	executor work.Executor // of the queue pairs
	sigAll   bool
	typ      QPType // zero: RC
	qkey     uint32
}

// service returns the type of the queue pairs.
func (s *settings) service() QPType {
	if s.typ == 0 {
		return RC
	}
	return s.typ
}

func standard() settings {
	return settings{
		cap: QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 256},
		cqe: 256, mem: 1 << 18, access: AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic,
		timeout: 14, retry: 7, rnrRetry: 7, rnrTimer: 1, mtu: roce.MTU1024, rdAtomic: 16, psn: 0xfffff0,
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newEnd(t testing.TB, d *Device, s settings) *end {
	t.Helper()
	e := &end{t: t, dev: d, pd: d.AllocPD(), mem: make([]byte, s.mem), seen: map[*CQ][]WC{}}
	e.cq = must(d.CreateCQ(s.cqe, nil, nil))(t)
	e.scq = must(d.CreateCQ(s.cqe, nil, nil))(t)
	e.mr = must(e.pd.RegMR(e.mem, s.access))(t)
	e.qp = e.newQP(s)
	return e
}

func (e *end) newQP(s settings) *QP {
	e.t.Helper()
	return must(e.pd.CreateQP(QPInit{
		Type: s.service(), SendCQ: e.scq, RecvCQ: e.cq, Cap: s.cap, Executor: s.executor, SQSigAll: s.sigAll,
	}))(e.t)
}

// connect takes two queue pairs to RTS.
func connect(t testing.TB, s settings, da, db *Device, a, b *QP) {
	t.Helper()
	toInit(t, a, s)
	toInit(t, b, s)
	toRTR(t, s, a, db, b.Num())
	toRTR(t, s, b, da, a.Num())
	toRTS(t, s, a)
	toRTS(t, s, b)
}

func toInit(t testing.TB, q *QP, s settings) {
	t.Helper()
	mask := map[QPType]AttrMask{RC: MaskInit, UC: MaskInitUC, UD: MaskInitUD, GSI: MaskInitGSI}[s.service()]
	if err := q.Modify(QPAttr{State: StateInit, Port: 1, Access: s.access, QKey: s.qkey}, mask); err != nil {
		t.Fatal(err)
	}
}

func toRTR(t testing.TB, s settings, q *QP, peer *Device, qpn uint32) {
	t.Helper()
	err := q.Modify(QPAttr{
		State: StateRTR, AV: AVTo(peer.Addr()), PathMTU: s.mtu, DestQPN: qpn, RQPSN: s.psn,
		MaxDestRdAtomic: s.rdAtomic, MinRNRTimer: s.rnrTimer,
	}, map[QPType]AttrMask{RC: MaskRTR, UC: MaskRTRUC, UD: MaskRTRUD, GSI: MaskRTRUD}[s.service()])
	if err != nil {
		t.Fatal(err)
	}
}

func toRTS(t testing.TB, s settings, q *QP) {
	t.Helper()
	err := q.Modify(QPAttr{
		State: StateRTS, Timeout: s.timeout, RetryCnt: s.retry, RNRRetry: s.rnrRetry, SQPSN: s.psn,
		MaxQPRdAtomic: s.rdAtomic,
	}, map[QPType]AttrMask{RC: MaskRTS, UC: MaskRTSUC, UD: MaskRTSUD, GSI: MaskRTSUD}[s.service()])
	if err != nil {
		t.Fatal(err)
	}
}

// newRig connects two devices of the caller's.
func newRig(t testing.TB, da, db *Device, s settings) *rig {
	t.Helper()
	r := &rig{t: t, a: newEnd(t, da, s), b: newEnd(t, db, s)}
	connect(t, s, da, db, r.a.qp, r.b.qp)
	if s.typ == UD || s.typ == GSI {
		r.a.ah = must(r.a.pd.CreateAH(AHTo(db.Addr())))(t)
		r.b.ah = must(r.b.pd.CreateAH(AHTo(da.Addr())))(t)
	}
	return r
}

// A veil is around a link and does nothing: where there is one, all goes in
// packets.
type veil struct{ link.Link }

// packets ends the names of those tests of onEach that have one.
const packets = "-packets"

// pair opens two devices on one executor, which may be nil.
func pair(t testing.TB, x work.Executor) (a, b *Device) {
	t.Helper()
	c := Config{Executor: x}
	if strings.Contains(t.Name(), packets) {
		c.Wrap = func(l link.Link) (link.Link, error) { return veil{l}, nil }
	}
	a, b, err := OpenPair(Config{Executor: x}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if x != nil {
			x.Close()
		}
	})
	return a, b
}

// limit is how long a test waits for what must come.
const limit = 20 * time.Second

// until calls step until it returns true.
func until(t testing.TB, what string, step func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !step(); {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", limit, what)
		}
		runtime.Gosched()
	}
}

// advance is until for what takes as long as the machine takes: step also says
// how far it is, and that may not stand still for longer than the limit. Who
// waits for a peer that is lost is told much sooner, by a completion in error.
func advance(t testing.TB, what string, step func() (far int, done bool)) {
	t.Helper()
	last, end := 0, time.Now().Add(limit)
	for far, done := step(); !done; far, done = step() {
		if now := time.Now(); far != last {
			last, end = far, now.Add(limit)
		} else if now.After(end) {
			t.Fatalf("waited %v for more of %s than %d", limit, what, far)
		}
		runtime.Gosched()
	}
}

// next returns the next completion of a queue.
func (e *end) next(cq *CQ) WC {
	e.t.Helper()
	var wc [1]WC
	until(e.t, "a completion", func() bool { return cq.Poll(wc[:]) == 1 })
	return wc[0]
}

// good returns the next completion of a queue, which must be a success.
func (e *end) good(cq *CQ) WC {
	e.t.Helper()
	wc := e.next(cq)
	if wc.Status != WCSuccess {
		e.t.Fatalf("got completion %d with %v, want success", wc.ID, wc.Status)
	}
	return wc
}

func (e *end) send(wrs ...SendWR) {
	e.t.Helper()
	if n, err := e.qp.PostSend(wrs...); err != nil {
		e.t.Fatalf("got error %v for send %d", err, n)
	}
}

func (e *end) recv(wrs ...RecvWR) {
	e.t.Helper()
	if n, err := e.qp.PostRecv(wrs...); err != nil {
		e.t.Fatalf("got error %v for receive %d", err, n)
	}
}

// fill puts a pattern into memory that depends on the seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31)
	}
}

// executors are those that every test of behaviour runs on.
var executors = []struct {
	name string
	make func() work.Executor
}{
	{"inline", func() work.Executor { return work.NewInline() }},
	{"tasklet", func() work.Executor { return work.NewTasklet() }},
	{"workqueue1", func() work.Executor { return work.NewWorkqueue(1) }},
	{"workqueue3", func() work.Executor { return work.NewWorkqueue(3) }},
	{"workqueue3" + packets, func() work.Executor { return work.NewWorkqueue(3) }},
}

// onEach runs f with every executor. Who makes devices closes it.
func onEach(t *testing.T, f func(t *testing.T, x work.Executor)) {
	for _, e := range executors {
		t.Run(e.name, func(t *testing.T) { f(t, e.make()) })
	}
}

// udp opens two devices over loopback, or skips the test.
func udp(t testing.TB, x work.Executor) (a, b *Device) {
	t.Helper()
	t.Cleanup(func() {
		if x != nil {
			x.Close()
		}
	})
	return udpOn(t, 1, x), udpOn(t, 2, x)
}

// udpOn opens a device on a loopback address, or skips the test.
func udpOn(t testing.TB, last byte, x work.Executor) *Device {
	t.Helper()
	d, err := Open(Config{Addr: netip.AddrFrom4([4]byte{127, 0, 0, last}), Executor: x})
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no device on 127.0.0.%d: %v", last, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// everywhere runs f with every executor over both fabrics.
func everywhere(t *testing.T, f func(t *testing.T, da, db *Device)) {
	for _, e := range executors {
		t.Run("memory/"+e.name, func(t *testing.T) {
			a, b := pair(t, e.make())
			f(t, a, b)
		})
		t.Run("udp/"+e.name, func(t *testing.T) {
			a, b := udp(t, e.make())
			f(t, a, b)
		})
	}
}
