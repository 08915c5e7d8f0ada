package peer

import (
	"fmt"

	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/verbs"
)

// Post implements script.Target.
func (t *Target) Post(r script.Request) error {
	sg, data, err := t.gather(r)
	if err != nil {
		return err
	}
	v := r.Values
	if r.Op == "recv" {
		_, err := t.qp.PostRecv(verbs.RecvWR{ID: v["id"], SG: sg})
		return err
	}
	wr := verbs.SendWR{
		ID: v["id"], SG: sg, RemoteAddr: v["va"], RKey: uint32(v["rkey"]),
		Compare: v["compare"], Swap: v["swap"], Add: v["add"],
	}
	for name, flag := range map[string]verbs.SendFlags{
		"solicited": verbs.Solicited, "fence": verbs.Fence, "inline": verbs.Inline,
	} {
		if r.Flags[name] {
			wr.Flags |= flag
		}
	}
	if !r.Flags["unsignaled"] {
		wr.Flags |= verbs.Signaled
	}
	if r.Flags["inline"] {
		wr.SG, wr.Data = nil, data
	}
	if wr.Opcode, err = opcode(r); err != nil {
		return err
	}
	for _, name := range []string{"imm", "inv", "key"} {
		if x, ok := v[name]; ok {
			wr.Imm = uint32(x)
		}
	}
	_, err = t.qp.PostSend(wr)
	return err
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
