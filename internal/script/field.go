package script

import "github.com/gantry-rdma/gantry/roce"

// A field is a part of a packet's headers that scripts name. The names are
// those that package roce prints.
type field struct {
	name string
	bits int  // how wide it is
	flag bool // may stand alone, for 1, or behind !, for 0
	wrap bool // counts round: values are cut to its width
	in   func(roce.Opcode) bool
	get  func(roce.Headers) uint64
	set  func(roce.Headers, uint64)
}

func always(roce.Opcode) bool { return true }

// with returns whether an opcode has a header.
func with(t roce.Traits) func(roce.Opcode) bool {
	return func(o roce.Opcode) bool { return o.Has(t) }
}

// fields is the table of all of them.
var fields = append(append(bthFields(), memoryFields()...), otherFields()...)

// fieldNamed finds a field.
func fieldNamed(name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// flagField makes a field of one bit in the BTH.
func flagField(name string, get func(*roce.BTH) bool, set func(*roce.BTH, bool)) field {
	return field{
		name: name, bits: 1, flag: true, in: always,
		get: func(h roce.Headers) uint64 { return truth(get(h.BTH())) },
		set: func(h roce.Headers, v uint64) { set(h.BTH(), v != 0) },
	}
}

// bthFields are those that every packet has.
func bthFields() []field {
	return []field{
		{name: "psn", bits: 24, wrap: true, in: always,
			get: func(h roce.Headers) uint64 { return uint64(h.BTH().PSN()) },
			set: func(h roce.Headers, v uint64) { h.BTH().SetPSN(roce.NewPSN(uint32(v))) }},
		{name: "qp", bits: 24, in: always,
			get: func(h roce.Headers) uint64 { return uint64(h.BTH().DestQP()) },
			set: func(h roce.Headers, v uint64) { h.BTH().SetDestQP(uint32(v)) }},
		{name: "pkey", bits: 16, in: always,
			get: func(h roce.Headers) uint64 { return uint64(h.BTH().PKey()) },
			set: func(h roce.Headers, v uint64) { h.BTH().SetPKey(uint16(v)) }},
		{name: "pad", bits: 2, in: always,
			get: func(h roce.Headers) uint64 { return uint64(h.BTH().Pad()) },
			set: func(h roce.Headers, v uint64) { h.BTH().SetPad(int(v)) }},
		{name: "op", bits: 8, in: always,
			get: func(h roce.Headers) uint64 { return uint64(h.BTH()[0]) },
			set: func(h roce.Headers, v uint64) { h.BTH()[0] = byte(v) }},
		{name: "ver", bits: 4, in: always,
			get: func(h roce.Headers) uint64 { return uint64(h.BTH()[1] & 0x0f) },
			set: func(h roce.Headers, v uint64) { h.BTH()[1] = h.BTH()[1]&0xf0 | byte(v) }},
		flagField("ack", (*roce.BTH).AckReq, (*roce.BTH).SetAckReq),
		flagField("se", (*roce.BTH).Solicited, (*roce.BTH).SetSolicited),
		flagField("mig", (*roce.BTH).MigReq, (*roce.BTH).SetMigReq),
		flagField("fecn", (*roce.BTH).FECN, (*roce.BTH).SetFECN),
		flagField("becn", (*roce.BTH).BECN, (*roce.BTH).SetBECN),
	}
}

// memoryFields are those of RETH and AtomicETH, which share two names.
func memoryFields() []field {
	remote := func(o roce.Opcode) bool { return o.Has(roce.HasRETH) || o.Has(roce.HasAtomicETH) }
	return []field{
		{name: "va", bits: 64, in: remote,
			get: func(h roce.Headers) uint64 {
				if x := h.RETH(); x != nil {
					return x.VA()
				}
				return h.AtomicETH().VA()
			},
			set: func(h roce.Headers, v uint64) { setMemory(h, v, rkeyOf(h)) }},
		{name: "rkey", bits: 32, in: remote,
			get: func(h roce.Headers) uint64 { return uint64(rkeyOf(h)) },
			set: func(h roce.Headers, v uint64) {
				va := uint64(0)
				if x := h.RETH(); x != nil {
					va = x.VA()
				} else {
					va = h.AtomicETH().VA()
				}
				setMemory(h, va, uint32(v))
			}},
		{name: "dma", bits: 32, in: with(roce.HasRETH),
			get: func(h roce.Headers) uint64 { return uint64(h.RETH().DMALen()) },
			set: func(h roce.Headers, v uint64) { h.RETH().Set(h.RETH().VA(), h.RETH().RKey(), uint32(v)) }},
		{name: "swapadd", bits: 64, in: with(roce.HasAtomicETH),
			get: func(h roce.Headers) uint64 { return h.AtomicETH().SwapAdd() },
			set: func(h roce.Headers, v uint64) {
				x := h.AtomicETH()
				x.Set(x.VA(), x.RKey(), v, x.Compare())
			}},
		{name: "compare", bits: 64, in: with(roce.HasAtomicETH),
			get: func(h roce.Headers) uint64 { return h.AtomicETH().Compare() },
			set: func(h roce.Headers, v uint64) {
				x := h.AtomicETH()
				x.Set(x.VA(), x.RKey(), x.SwapAdd(), v)
			}},
	}
}

func rkeyOf(h roce.Headers) uint32 {
	if x := h.RETH(); x != nil {
		return x.RKey()
	}
	return h.AtomicETH().RKey()
}

func setMemory(h roce.Headers, va uint64, rkey uint32) {
	if x := h.RETH(); x != nil {
		x.Set(va, rkey, x.DMALen())
		return
	}
	x := h.AtomicETH()
	x.Set(va, rkey, x.SwapAdd(), x.Compare())
}

// otherFields are those of the other extension headers.
func otherFields() []field {
	return []field{
		{name: "syndrome", bits: 8, in: with(roce.HasAETH),
			get: func(h roce.Headers) uint64 { return uint64(h.AETH().Syndrome()) },
			set: func(h roce.Headers, v uint64) { h.AETH().Set(roce.Syndrome(v), h.AETH().MSN()) }},
		{name: "msn", bits: 24, wrap: true, in: with(roce.HasAETH),
			get: func(h roce.Headers) uint64 { return uint64(h.AETH().MSN()) },
			set: func(h roce.Headers, v uint64) { h.AETH().Set(h.AETH().Syndrome(), uint32(v)) }},
		{name: "orig", bits: 64, in: with(roce.HasAtomicAckETH),
			get: func(h roce.Headers) uint64 { return h.AtomicAckETH().Original() },
			set: func(h roce.Headers, v uint64) { h.AtomicAckETH().SetOriginal(v) }},
		{name: "imm", bits: 32, in: with(roce.HasImmDt),
			get: func(h roce.Headers) uint64 { return uint64(h.ImmDt().Value()) },
			set: func(h roce.Headers, v uint64) { h.ImmDt().SetValue(uint32(v)) }},
		{name: "inv", bits: 32, in: with(roce.HasIETH),
			get: func(h roce.Headers) uint64 { return uint64(h.IETH().RKey()) },
			set: func(h roce.Headers, v uint64) { h.IETH().SetRKey(uint32(v)) }},
		{name: "qkey", bits: 32, in: with(roce.HasDETH),
			get: func(h roce.Headers) uint64 { return uint64(h.DETH().QKey()) },
			set: func(h roce.Headers, v uint64) { h.DETH().Set(uint32(v), h.DETH().SrcQP()) }},
		{name: "src", bits: 24, in: with(roce.HasDETH),
			get: func(h roce.Headers) uint64 { return uint64(h.DETH().SrcQP()) },
			set: func(h roce.Headers, v uint64) { h.DETH().Set(h.DETH().QKey(), uint32(v)) }},
		{name: "place", bits: 4, in: with(roce.HasFETH),
			get: func(h roce.Headers) uint64 { return uint64(h.FETH().Placement()) },
			set: func(h roce.Headers, v uint64) { h.FETH().Set(roce.Placement(v), h.FETH().Level()) }},
		{name: "level", bits: 2, in: with(roce.HasFETH),
			get: func(h roce.Headers) uint64 { return uint64(h.FETH().Level()) },
			set: func(h roce.Headers, v uint64) { h.FETH().Set(h.FETH().Placement(), roce.FlushLevel(v)) }},
	}
}

// opcodes finds opcodes by what package roce prints.
var opcodes = func() map[string]roce.Opcode {
	all := map[string]roce.Opcode{}
	for o := range 256 {
		if o := roce.Opcode(o); o.Known() {
			all[o.String()] = o
		}
	}
	return all
}()
