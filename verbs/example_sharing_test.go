package verbs_test

import (
	"encoding/binary"
	"fmt"

	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// connected returns two ends that are connected, with the rights that the left
// one has to the memory of the right one; and what closes them.
func connected(access verbs.Access, srq bool) (left, right *side, shared *verbs.SRQ, end func()) {
	x := work.NewInline()
	a, b, err := verbs.OpenPair(verbs.Config{Executor: x}, verbs.Config{Executor: x})
	if err != nil {
		panic(err)
	}
	left, right = newSide(a), newSide(b)
	pd := b.AllocPD()
	right.mr, _ = pd.RegMR(right.mem, access)
	if srq {
		shared, _ = pd.CreateSRQ(verbs.SRQInit{MaxWR: 16, MaxSGE: 1, Limit: 1})
	}
	right.qp, _ = pd.CreateQP(verbs.QPInit{
		Type: verbs.RC, SendCQ: right.cq, RecvCQ: right.cq, SRQ: shared,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	left.connect(b, right.qp.Num())
	right.connect(a, left.qp.Num())
	rights := verbs.QPAttr{Access: access &^ verbs.AccessMWBind}
	if err := right.qp.Modify(rights, verbs.AttrAccess); err != nil {
		fmt.Println(err)
	}
	return left, right, shared, func() { _, _ = a.Close(), b.Close(); x.Close() }
}

// do posts a request and returns its completion.
func (s *side) do(wr verbs.SendWR) (wc verbs.WC) {
	wr.Flags |= verbs.Signaled
	if _, err := s.qp.PostSend(wr); err != nil {
		fmt.Println(err)
		return wc
	}
	return s.wait()
}

func (s *side) wait() verbs.WC {
	var wc [1]verbs.WC
	for s.cq.Poll(wc[:]) == 0 {
	}
	return wc[0]
}

// Receives are posted once, for as many queue pairs as there are.
func ExampleSRQ() {
	left, right, srq, end := connected(verbs.AccessLocalWrite, true)
	defer end()
	for id := range uint64(2) {
		if _, err := srq.PostRecv(verbs.RecvWR{ID: id, SG: []verbs.SGE{right.mr.SGE(int(id)*64, 64)}}); err != nil {
			fmt.Println(err)
		}
	}
	for range 2 {
		copy(left.mem, "hello")
		left.do(verbs.SendWR{Opcode: verbs.WRSend, SG: []verbs.SGE{left.mr.SGE(0, 5)}})
		wc := right.wait()
		fmt.Printf("receive %d: %s\n", wc.ID, right.mem[wc.ID*64:][:wc.ByteLen])
	}
	device := right.qp.PD().Device()
	for e, ok := device.TryEvent(); ok; e, ok = device.TryEvent() {
		if e.SRQ == srq {
			fmt.Println(e.Type)
		}
	}
	// Output:
	// receive 0: hello
	// receive 1: hello
	// SRQ_LIMIT_REACHED
}

// A window opens a part of a region for one exchange, and is closed by the peer
// when it is done.
func ExampleMW() {
	left, right, _, end := connected(verbs.AccessLocalWrite|verbs.AccessMWBind|verbs.AccessRemoteWrite, false)
	defer end()
	w, _ := right.qp.PD().AllocMW(verbs.MWType2)
	key := verbs.IncRKey(w.RKey())
	wc := right.do(verbs.SendWR{Opcode: verbs.WRBindMW, BindMW: &verbs.BindMW{
		MW: w, RKey: key, MR: right.mr, Addr: right.mr.Addr() + 100, Len: 64, Access: verbs.AccessRemoteWrite | verbs.AccessZeroBased,
	}})
	fmt.Println(wc.Opcode, wc.Status)

	if _, err := right.qp.PostRecv(verbs.RecvWR{}); err != nil {
		fmt.Println(err)
	}
	copy(left.mem, "through the window")
	left.do(verbs.SendWR{Opcode: verbs.WRRDMAWrite, SG: []verbs.SGE{left.mr.SGE(0, 18)}, RemoteAddr: 0, RKey: key})
	left.do(verbs.SendWR{Opcode: verbs.WRSendWithInv, Imm: key})
	wc = right.wait()
	fmt.Printf("%s, invalidated: %v\n", right.mem[100:118], wc.Imm == key)

	wc = left.do(verbs.SendWR{Opcode: verbs.WRRDMAWrite, SG: []verbs.SGE{left.mr.SGE(0, 18)}, RKey: key})
	fmt.Println(wc.Status)
	// Output:
	// BIND_MW SUCCESS
	// through the window, invalidated: true
	// REM_ACCESS_ERR
}

// A record is written and made visible before the word that announces it is
// stored, in one piece.
func ExampleSendWR_flush() {
	left, right, _, end := connected(verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessFlushGlobal, false)
	defer end()
	at, key := right.mr.Addr(), right.mr.RKey()
	copy(left.mem[8:], "record")
	left.do(verbs.SendWR{Opcode: verbs.WRRDMAWrite, SG: []verbs.SGE{left.mr.SGE(8, 6)}, RemoteAddr: at + 8, RKey: key})
	wc := left.do(verbs.SendWR{Opcode: verbs.WRFlush, RemoteAddr: at + 8, RKey: key, FlushLen: 6, FlushType: verbs.FlushGlobal})
	fmt.Println(wc.Opcode, wc.Status)

	binary.NativeEndian.PutUint64(left.mem, 6)
	wc = left.do(verbs.SendWR{Opcode: verbs.WRAtomicWrite, SG: []verbs.SGE{left.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key})
	fmt.Println(wc.Opcode, wc.Status)
	fmt.Printf("%s\n", right.mem[8:][:binary.NativeEndian.Uint64(right.mem)])
	// Output:
	// FLUSH SUCCESS
	// ATOMIC_WRITE SUCCESS
	// record
}
