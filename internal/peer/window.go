package peer

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/verbs"
)

// allocate makes the memory windows, and a second queue pair if one is to be
// bound by another than the script's.
func (t *Target) allocate(s script.Setup) error {
	for _, want := range s.Windows {
		mw, err := t.pds[0].AllocMW(verbs.MWType(want.Type))
		if err != nil {
			return fmt.Errorf("window %s: %w", want.Name, err)
		}
		w := &window{mw: mw, qp: t.qp}
		if want.Other {
			if err := t.another(); err != nil {
				return fmt.Errorf("window %s: %w", want.Name, err)
			}
			w.qp = t.second
		}
		t.windows[want.Name] = w
	}
	return nil
}

// another makes the second queue pair. It is connected to itself: to bind takes
// no peer.
func (t *Target) another() (err error) {
	if t.second != nil {
		return nil
	}
	t.second, err = t.pds[0].CreateQP(verbs.QPInit{
		Type: verbs.UC, SendCQ: t.send.cq, RecvCQ: t.recv.cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1},
	})
	if err != nil {
		return err
	}
	a := verbs.QPAttr{Port: 1, AV: verbs.AVTo(t.addr), PathMTU: t.dev.Port().ActiveMTU, DestQPN: t.second.Num()}
	for _, step := range []struct {
		to   verbs.QPState
		mask verbs.AttrMask
	}{{verbs.StateInit, verbs.MaskInitUC}, {verbs.StateRTR, verbs.MaskRTRUC}, {verbs.StateRTS, verbs.MaskRTSUC}} {
		a.State = step.to
		if err := t.second.Modify(a, step.mask); err != nil {
			return err
		}
	}
	return nil
}

// bind posts the binding of a window, to the piece of a region that is named. A
// window of type 2 gets the key after its own, unless another is given.
func (t *Target) bind(r script.Request) (changed map[string]uint64, err error) {
	w := t.windows[r.Window]
	if w == nil {
		return nil, fmt.Errorf("there is no window %s", r.Window)
	}
	b := verbs.MWBind{ID: r.Values["id"], Flags: flags(r), Access: access(r.Rights)}
	for _, s := range r.SG {
		g := t.regions[s.Region]
		if g == nil {
			return nil, fmt.Errorf("there is no region %s", s.Region)
		}
		b.MR, b.Addr, b.Len = g.mr, g.mr.Addr()+s.Off, s.Len
	}
	key := verbs.IncRKey(w.mw.RKey())
	if w.mw.Type() == verbs.MWType1 {
		err = w.mw.Bind(w.qp, b)
		key = w.mw.RKey()
	} else {
		if x, ok := r.Values["key"]; ok {
			key = uint32(x)
		}
		_, err = w.qp.PostSend(verbs.SendWR{ID: b.ID, Flags: b.Flags, Opcode: verbs.WRBindMW, BindMW: &verbs.BindMW{
			MW: w.mw, RKey: key, MR: b.MR, Addr: b.Addr, Len: b.Len, Access: b.Access,
		}})
	}
	if err != nil {
		return nil, err
	}
	return map[string]uint64{r.Window + ".rkey": uint64(key)}, nil
}

// Group implements script.Target.
func (t *Target) Group(group netip.Addr, member bool) error {
	if !member {
		delete(t.groups, group)
		return t.qp.DetachMulticast(verbs.GIDOf(group), 0)
	}
	if err := t.qp.AttachMulticast(verbs.GIDOf(group), 0); err != nil {
		return err
	}
	t.groups[group] = true
	return nil
}

// LimitReceives implements script.Target.
func (t *Target) LimitReceives(n int) error {
	if t.srq == nil {
		return errNoSRQ
	}
	return t.srq.Modify(verbs.SRQAttr{Limit: n}, verbs.SRQLimit)
}

// FailReceives implements script.Target.
func (t *Target) FailReceives() error {
	if t.srq == nil {
		return errNoSRQ
	}
	t.srq.Fail()
	return nil
}

var errNoSRQ = errors.New("the target has no shared receive queue: srq in its block makes one")
