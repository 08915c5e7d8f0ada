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
	qp      *verbs.QP
	attr    verbs.QPAttr
	regions map[string]*region
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

// NewTarget returns a target that Start will open on addr, for a script on
// peer.
func NewTarget(addr, peer netip.Addr) *Target {
	return &Target{addr: addr, peer: peer, regions: map[string]*region{}}
}

// rights are the words of scripts.
var rights = map[string]verbs.Access{
	"local_write": verbs.AccessLocalWrite, "remote_write": verbs.AccessRemoteWrite,
	"remote_read": verbs.AccessRemoteRead, "remote_atomic": verbs.AccessRemoteAtomic,
}

func access(words []string) (a verbs.Access) {
	for _, w := range words {
		a |= rights[w]
	}
	return a
}

// Start implements script.Target.
func (t *Target) Start(s script.Setup) (found map[string]uint64, err error) {
	if s.Transport != roce.RC {
		return nil, fmt.Errorf("a target of type %v is not possible: RC is", s.Transport)
	}
	if t.dev, err = verbs.Open(verbs.Config{Addr: t.addr, SocketBuffer: socketBuffer}); err != nil {
		return nil, err
	}
	t.pds = [2]*verbs.PD{t.dev.AllocPD(), t.dev.AllocPD()}
	if err := t.register(s.Regions); err != nil {
		return nil, err
	}
	if err := t.create(s.Values); err != nil {
		return nil, err
	}
	if err := t.connect(s); err != nil {
		return nil, err
	}
	found = map[string]uint64{"qpn": uint64(t.qp.Num())}
	for name, r := range t.regions {
		found[name+".va"], found[name+".len"] = r.mr.Addr(), uint64(len(r.mem))
		found[name+".rkey"], found[name+".lkey"] = uint64(r.mr.RKey()), uint64(r.mr.LKey())
	}
	return found, nil
}

// register makes the regions.
func (t *Target) register(all []script.Region) (err error) {
	for _, want := range all {
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
func (t *Target) create(v map[string]uint64) (err error) {
	if t.recv, err = t.queue(int(v["recv_cqe"])); err != nil {
		return err
	}
	if t.send, err = t.queue(int(v["send_cqe"])); err != nil {
		return err
	}
	t.qp, err = t.pds[0].CreateQP(verbs.QPInit{
		Type: verbs.RC, SendCQ: t.send.cq, RecvCQ: t.recv.cq,
		Cap: verbs.QPCap{
			MaxSendWR: int(v["send_wr"]), MaxRecvWR: int(v["recv_wr"]), MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256,
		},
	})
	return err
}

// queue makes a completion queue.
func (t *Target) queue(cqe int) (q queue, err error) {
	if q.ch, err = t.dev.CreateCompChannel(); err != nil {
		return q, err
	}
	q.cq, err = t.dev.CreateCQ(cqe, q.ch, nil)
	return q, err
}

// connect takes the queue pair as far as the script wants it.
func (t *Target) connect(s script.Setup) error {
	mtu, ok := roce.MTUOf(int(s.Values["mtu"]))
	if !ok {
		return fmt.Errorf("mtu %d: 256, 512, 1024, 2048 and 4096 are possible", s.Values["mtu"])
	}
	small := func(name string) uint8 { return uint8(s.Values[name]) }
	t.attr = verbs.QPAttr{
		Port: 1, Access: access(s.Access), AV: verbs.AVTo(t.peer), PathMTU: mtu, DestQPN: s.LocalQPN,
		RQPSN: s.RQPSN, SQPSN: s.SQPSN, Timeout: small("timeout"), RetryCnt: small("retry_cnt"),
		RNRRetry: small("rnr_retry"), MaxQPRdAtomic: small("max_rd_atomic"),
		MaxDestRdAtomic: small("max_dest_rd_atomic"), MinRNRTimer: roce.RNRTimer(small("min_rnr_timer")),
	}
	for _, state := range []string{"INIT", "RTR", "RTS"} {
		if err := t.Modify(state); err != nil || state == s.State {
			return err
		}
	}
	return nil
}

// states are those that Modify can go to, and what that sets.
var states = map[string]struct {
	to   verbs.QPState
	mask verbs.AttrMask
}{
	"RESET": {verbs.StateReset, verbs.AttrState}, "INIT": {verbs.StateInit, verbs.MaskInit},
	"RTR": {verbs.StateRTR, verbs.MaskRTR}, "RTS": {verbs.StateRTS, verbs.MaskRTS},
	"SQD": {verbs.StateSQD, verbs.AttrState | verbs.AttrSQDNotify}, "ERR": {verbs.StateErr, verbs.AttrState},
}

// Modify implements script.Target.
func (t *Target) Modify(state string) error {
	s, ok := states[state]
	if !ok {
		return fmt.Errorf("there is no state %s", state)
	}
	a := t.attr
	a.State, a.SQDNotify = s.to, true
	if s.to == verbs.StateRTS && t.qp.State() == verbs.StateSQD {
		s.mask = verbs.AttrState
	}
	if err := t.qp.Modify(a, s.mask); err != nil {
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
	if t.qp != nil {
		errs = append(errs, t.qp.Destroy())
	}
	return errors.Join(append(errs, t.dev.Close())...)
}
