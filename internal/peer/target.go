package peer

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// A Target is a script.Target: a verbs device on an address of this machine,
// with one queue pair that is connected to the script. It is used by one
// goroutine.
type Target struct {
	addr, peer netip.Addr // its own, and that of the script

	dev     *verbs.Device
	pds     [2]*verbs.PD // of the queue pair, and another one
	recv    queue
	send    queue
	srq     *verbs.SRQ // or nil
	qp      *verbs.QP
	second  *verbs.QP // that binds windows which are not the script's, or nil
	steps   steps
	attr    verbs.QPAttr
	regions map[string]*region
	windows map[string]*window
	groups  map[netip.Addr]bool // that the queue pair is in
	handles map[netip.Addr]*verbs.AH
}

// A queue is a completion queue with a channel of its own.
type queue struct {
	ch *verbs.CompChannel
	cq *verbs.CQ
}

// A region is registered memory.
type region struct {
	mem []byte
	mr  *verbs.MR
}

// A window is a memory window, and the queue pair that binds it.
type window struct {
	mw *verbs.MW
	qp *verbs.QP
}

// NewTarget returns a target that Start will open on addr, for a script on
// peer.
func NewTarget(addr, peer netip.Addr) *Target {
	return &Target{
		addr: addr, peer: peer, regions: map[string]*region{}, windows: map[string]*window{},
		groups: map[netip.Addr]bool{}, handles: map[netip.Addr]*verbs.AH{},
	}
}

// rights are the words of scripts.
var rights = map[string]verbs.Access{
	"local_write": verbs.AccessLocalWrite, "remote_write": verbs.AccessRemoteWrite,
	"remote_read": verbs.AccessRemoteRead, "remote_atomic": verbs.AccessRemoteAtomic,
	"flush_global": verbs.AccessFlushGlobal, "flush_persistent": verbs.AccessFlushPersistent,
	"mw_bind": verbs.AccessMWBind, "zero_based": verbs.AccessZeroBased,
}

func access(words []string) (a verbs.Access) {
	for _, w := range words {
		a |= rights[w]
	}
	return a
}

// Start implements script.Target.
func (t *Target) Start(s script.Setup) (found map[string]uint64, err error) {
	mtu, ok := roce.MTUOf(int(s.Values["mtu"]))
	if !ok {
		return nil, fmt.Errorf("mtu %d: 256, 512, 1024, 2048 and 4096 are possible", s.Values["mtu"])
	}
	t.steps = ways[s.Transport]
	c := verbs.Config{Addr: t.addr, SocketBuffer: socketBuffer}
	if t.steps.typ == verbs.UD {
		c.MTU = mtu.Bytes() // datagrams know no other
	}
	if t.dev, err = verbs.Open(c); err != nil {
		return nil, err
	}
	t.pds = [2]*verbs.PD{t.dev.AllocPD(), t.dev.AllocPD()}
	for _, step := range []func(script.Setup) error{t.register, t.create, t.allocate} {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	t.describe(s, mtu)
	if err := t.connect(s.State); err != nil {
		return nil, err
	}
	found = map[string]uint64{"qpn": uint64(t.qp.Num())}
	for name, r := range t.regions {
		found[name+".va"], found[name+".len"] = r.mr.Addr(), uint64(len(r.mem))
		found[name+".rkey"], found[name+".lkey"] = uint64(r.mr.RKey()), uint64(r.mr.LKey())
	}
	for name, w := range t.windows {
		found[name+".rkey"] = uint64(w.mw.RKey())
	}
	return found, nil
}

// register makes the regions.
func (t *Target) register(s script.Setup) (err error) {
	for _, want := range s.Regions {
		r := &region{mem: aligned(want.Size)}
		pd := t.pds[0]
		if want.Other {
			pd = t.pds[1]
		}
		if r.mr, err = pd.RegMR(r.mem, access(want.Rights)); err != nil {
			return fmt.Errorf("region %s: %w", want.Name, err)
		}
		t.regions[want.Name] = r
	}
	return nil
}

// aligned returns n bytes that begin at a multiple of 4096, so that a script
// knows what an address is aligned to.
func aligned(n int) []byte {
	const page = 4096
	b := make([]byte, n+page)
	off := int(-sys.Addr(b) & (page - 1))
	return b[off : off+n : off+n]
}

// create makes the queue pair.
func (t *Target) create(s script.Setup) (err error) {
	v := s.Values
	if t.recv, err = t.queue(int(v["recv_cqe"])); err != nil {
		return err
	}
	if t.send, err = t.queue(int(v["send_cqe"])); err != nil {
		return err
	}
	if n := int(v["srq"]); n > 0 {
		c := verbs.SRQInit{MaxWR: n, MaxSGE: maxSGE, Limit: int(v["srq_limit"])}
		if t.srq, err = t.pds[0].CreateSRQ(c); err != nil {
			return err
		}
	}
	t.qp, err = t.pds[0].CreateQP(verbs.QPInit{
		Type: t.steps.typ, SendCQ: t.send.cq, RecvCQ: t.recv.cq, SRQ: t.srq,
		Cap: verbs.QPCap{
			MaxSendWR: int(v["send_wr"]), MaxRecvWR: int(v["recv_wr"]), MaxSendSGE: maxSGE, MaxRecvSGE: maxSGE, MaxInline: 256,
		},
	})
	return err
}

// maxSGE is how many scatter entries a work request may have.
const maxSGE = 4

// queue makes a completion queue.
func (t *Target) queue(cqe int) (q queue, err error) {
	if q.ch, err = t.dev.CreateCompChannel(); err != nil {
		return q, err
	}
	q.cq, err = t.dev.CreateCQ(cqe, q.ch, nil)
	return q, err
}

// describe notes the attributes of the queue pair.
func (t *Target) describe(s script.Setup, mtu roce.MTU) {
	small := func(name string) uint8 { return uint8(s.Values[name]) }
	t.attr = verbs.QPAttr{
		Port: 1, Access: access(s.Access), AV: verbs.AVTo(t.peer), PathMTU: mtu, DestQPN: s.LocalQPN,
		RQPSN: s.RQPSN, SQPSN: s.SQPSN, Timeout: small("timeout"), RetryCnt: small("retry_cnt"),
		RNRRetry: small("rnr_retry"), MaxQPRdAtomic: small("max_rd_atomic"),
		MaxDestRdAtomic: small("max_dest_rd_atomic"), MinRNRTimer: roce.RNRTimer(small("min_rnr_timer")),
		QKey: uint32(s.Values["qkey"]),
	}
}

// connect takes the queue pair as far as the script wants it.
func (t *Target) connect(to string) error {
	for _, state := range []string{"INIT", "RTR", "RTS"} {
		if err := t.Modify(state); err != nil || state == to {
			return err
		}
	}
	return nil
}

// steps are the masks that take a queue pair of some type to its states.
type steps struct {
	typ            verbs.QPType
	init, rtr, rts verbs.AttrMask
}

var ways = map[roce.Transport]steps{
	roce.RC: {verbs.RC, verbs.MaskInit, verbs.MaskRTR, verbs.MaskRTS},
	roce.UC: {verbs.UC, verbs.MaskInitUC, verbs.MaskRTRUC, verbs.MaskRTSUC},
	roce.UD: {verbs.UD, verbs.MaskInitUD, verbs.MaskRTRUD, verbs.MaskRTSUD},
}

// to returns the state of that name, and what going there sets.
func (s *steps) to(state string) (to verbs.QPState, mask verbs.AttrMask, ok bool) {
	switch state {
	case "RESET":
		return verbs.StateReset, verbs.AttrState, true
	case "INIT":
		return verbs.StateInit, s.init, true
	case "RTR":
		return verbs.StateRTR, s.rtr, true
	case "RTS":
		return verbs.StateRTS, s.rts, true
	case "SQD":
		return verbs.StateSQD, verbs.AttrState | verbs.AttrSQDNotify, true
	case "ERR":
		return verbs.StateErr, verbs.AttrState, true
	}
	return 0, 0, false
}

// Modify implements script.Target.
func (t *Target) Modify(state string) error {
	to, mask, ok := t.steps.to(state)
	if !ok {
		return fmt.Errorf("there is no state %s", state)
	}
	a := t.attr
	a.State, a.SQDNotify = to, true
	if to == verbs.StateRTS && t.qp.State() == verbs.StateSQD {
		mask = verbs.AttrState
	}
	if err := t.qp.Modify(a, mask); err != nil {
		return fmt.Errorf("modify to %s: %w", state, err)
	}
	return nil
}

// Close gives everything up.
func (t *Target) Close() error {
	if t.dev == nil {
		return nil
	}
	var errs []error
	for group := range t.groups {
		errs = append(errs, t.Group(group, false))
	}
	for _, q := range []*verbs.QP{t.second, t.qp} {
		if q != nil {
			errs = append(errs, q.Destroy())
		}
	}
	return errors.Join(append(errs, t.dev.Close())...)
}
