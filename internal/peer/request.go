package peer

import (
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/verbs"
)

// Post implements script.Target.
func (t *Target) Post(r script.Request) (changed map[string]uint64, err error) {
	if r.Op == "bind" {
		return t.bind(r)
	}
	sg, data, err := t.gather(r)
	if err != nil {
		return nil, err
	}
	if r.Op == "recv" {
		return nil, t.postRecv(verbs.RecvWR{ID: r.Values["id"], SG: sg})
	}
	wr := verbs.SendWR{SG: sg, Flags: flags(r)}
	if r.Flags["inline"] {
		wr.SG, wr.Data = nil, data
	}
	if err := t.fill(&wr, r); err != nil {
		return nil, err
	}
	_, err = t.qp.PostSend(wr)
	return nil, err
}

// postRecv posts a receive where the queue pair takes its own from.
func (t *Target) postRecv(wr verbs.RecvWR) (err error) {
	if t.srq != nil {
		_, err = t.srq.PostRecv(wr)
		return err
	}
	_, err = t.qp.PostRecv(wr)
	return err
}

// flags returns the flags of a work request.
func flags(r script.Request) (all verbs.SendFlags) {
	for name, flag := range map[string]verbs.SendFlags{
		"solicited": verbs.Solicited, "fence": verbs.Fence, "inline": verbs.Inline,
	} {
		if r.Flags[name] {
			all |= flag
		}
	}
	if !r.Flags["unsignaled"] {
		all |= verbs.Signaled
	}
	return all
}

// fill writes what a work request asks for.
func (t *Target) fill(wr *verbs.SendWR, r script.Request) (err error) {
	v := r.Values
	if wr.Opcode, err = opcode(r); err != nil {
		return err
	}
	wr.ID, wr.RemoteAddr, wr.RKey = v["id"], v["va"], uint32(v["rkey"])
	wr.Compare, wr.Swap, wr.Add = v["compare"], v["swap"], v["add"]
	wr.FlushLen, wr.FlushLevel, wr.FlushType = uint32(v["dma"]), verbs.FlushLevel(v["level"]), verbs.FlushGlobal
	if x, ok := v["place"]; ok {
		wr.FlushType = verbs.FlushType(x)
	}
	for _, name := range []string{"imm", "inv", "key"} {
		if x, ok := v[name]; ok {
			wr.Imm = uint32(x)
		}
	}
	if t.steps.typ != verbs.UD {
		return nil
	}
	wr.RemoteQPN, wr.RemoteQKey = t.attr.DestQPN, t.attr.QKey
	if x, ok := v["dest"]; ok {
		wr.RemoteQPN = uint32(x)
	}
	if x, ok := v["qkey"]; ok {
		wr.RemoteQKey = uint32(x)
	}
	wr.AH, err = t.handle(r.To)
	return err
}

// handle returns the address handle of an address.
func (t *Target) handle(a netip.Addr) (h *verbs.AH, err error) {
	if h = t.handles[a]; h != nil {
		return h, nil
	}
	if h, err = t.pds[0].CreateAH(verbs.AHTo(a)); err == nil {
		t.handles[a] = h
	}
	return h, err
}

// opcode returns what a work request asks for.
func opcode(r script.Request) (verbs.Opcode, error) {
	_, imm := r.Values["imm"]
	_, inv := r.Values["inv"]
	switch op := r.Op; {
	case op == "send" && imm:
		return verbs.WRSendWithImm, nil
	case op == "send" && inv:
		return verbs.WRSendWithInv, nil
	case op == "send":
		return verbs.WRSend, nil
	case op == "write" && imm:
		return verbs.WRRDMAWriteWithImm, nil
	case op == "write":
		return verbs.WRRDMAWrite, nil
	case op == "read":
		return verbs.WRRDMARead, nil
	case op == "compare_swap":
		return verbs.WRAtomicCmpAndSwp, nil
	case op == "fetch_add":
		return verbs.WRAtomicFetchAndAdd, nil
	case op == "local_inv":
		return verbs.WRLocalInv, nil
	case op == "flush":
		return verbs.WRFlush, nil
	case op == "atomic_write":
		return verbs.WRAtomicWrite, nil
	}
	return 0, fmt.Errorf("%s cannot be posted", r.Op)
}

// gather makes the scatter entries of a work request, and collects their bytes
// for an inline one.
func (t *Target) gather(r script.Request) (sg []verbs.SGE, data []byte, err error) {
	for _, s := range r.SG {
		g := t.regions[s.Region]
		if g == nil {
			return nil, nil, fmt.Errorf("there is no region %s", s.Region)
		}
		e := verbs.SGE{Addr: g.mr.Addr() + s.Off, Len: uint32(s.Len), LKey: g.mr.LKey()}
		if s.HasKey {
			e.LKey = uint32(s.Key)
		}
		sg = append(sg, e)
		if r.Flags["inline"] {
			if s.Off > uint64(len(g.mem)) || s.Len > uint64(len(g.mem))-s.Off {
				return nil, nil, fmt.Errorf("inline data of %d bytes at %d are not all in %s", s.Len, s.Off, s.Region)
			}
			data = append(data, g.mem[s.Off:s.Off+s.Len]...)
		}
	}
	return sg, data, nil
}
