package verbs_test

import (
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// unreliablePair returns two ends with a queue pair each, in state RESET, and
// what gives them up.
func unreliablePair(of verbs.QPType) (left, right *side, stop func()) {
	x := work.NewInline()
	a, b, err := verbs.OpenPair(verbs.Config{Executor: x}, verbs.Config{Executor: x})
	if err != nil {
		panic(err)
	}
	return newSideOf(a, of), newSideOf(b, of), func() {
		a.Close()
		b.Close()
		x.Close()
	}
}

// step modifies a queue pair, and prints what is wrong with that.
func (s *side) step(a verbs.QPAttr, mask verbs.AttrMask) {
	if err := s.qp.Modify(a, mask); err != nil {
		fmt.Println(err)
	}
}

// On an unreliable connection nobody answers: what is lost is lost, in whole
// messages. A send completes when its memory is the program's again.
func ExampleQP_PostSend_unreliableConnection() {
	left, right, stop := unreliablePair(verbs.UC)
	defer stop()
	for _, s := range [][2]*side{{left, right}, {right, left}} {
		me, peer := s[0], s[1]
		me.step(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: verbs.AccessRemoteWrite}, verbs.MaskInitUC)
		me.step(verbs.QPAttr{
			State: verbs.StateRTR, AV: verbs.AVTo(peer.qp.PD().Device().Addr()), PathMTU: roce.MTU1024, DestQPN: peer.qp.Num(),
		}, verbs.MaskRTRUC)
		me.step(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskRTSUC)
	}

	// The receive is used up by the immediate data: it tells that the write is
	// there.
	copy(left.mem, "written")
	right.qp.PostRecv(verbs.RecvWR{ID: 1})
	left.qp.PostSend(verbs.SendWR{
		ID: 2, Opcode: verbs.WRRDMAWriteWithImm, Flags: verbs.Signaled, Imm: 7, SG: []verbs.SGE{left.mr.SGE(0, 7)},
		RemoteAddr: right.mr.Addr() + 100, RKey: right.mr.RKey(),
	})
	var wc [1]verbs.WC
	for right.cq.Poll(wc[:]) == 0 {
	}
	fmt.Printf("%v with %d: %s\n", wc[0].Opcode, wc[0].Imm, right.mem[100:107])
	// Output: RECV_RDMA_WITH_IMM with 7: written
}

// A datagram says itself where it goes. Its receive begins with 40 bytes that
// say where it came from, and so how to answer.
func ExamplePD_CreateAH() {
	left, right, stop := unreliablePair(verbs.UD)
	defer stop()
	const key = 0x1ee7
	for _, s := range []*side{left, right} {
		s.step(verbs.QPAttr{State: verbs.StateInit, Port: 1, QKey: key}, verbs.MaskInitUD)
		s.step(verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskRTRUD)
		s.step(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskRTSUD)
	}
	receive := func(s *side) (wc [1]verbs.WC) {
		for s.cq.Poll(wc[:]) == 0 || wc[0].Opcode != verbs.WCRecv {
		}
		fmt.Printf("%s\n", s.mem[roce.GRHLen:wc[0].ByteLen])
		return wc
	}
	left.qp.PostRecv(verbs.RecvWR{SG: []verbs.SGE{left.mr.SGE(0, 1000)}})
	right.qp.PostRecv(verbs.RecvWR{SG: []verbs.SGE{right.mr.SGE(0, 1000)}})

	there, err := left.qp.PD().CreateAH(verbs.AHTo(right.qp.PD().Device().Addr()))
	if err != nil {
		fmt.Println(err)
		return
	}
	left.qp.PostSend(verbs.SendWR{
		Opcode: verbs.WRSend, Flags: verbs.Inline, Data: []byte("who is there?"),
		AH: there, RemoteQPN: right.qp.Num(), RemoteQKey: key,
	})
	wc := receive(right)

	back, err := right.qp.PD().CreateAHFromWC(1, &wc[0], (*roce.GRH)(right.mem))
	if err != nil {
		fmt.Println(err)
		return
	}
	right.qp.PostSend(verbs.SendWR{
		Opcode: verbs.WRSend, Flags: verbs.Inline, Data: []byte("me"),
		AH: back, RemoteQPN: wc[0].SrcQP, RemoteQKey: key,
	})
	receive(left)
	// Output:
	// who is there?
	// me
}

// Whoever is attached to a multicast group gets what is sent to it.
func ExampleQP_AttachMulticast() {
	left, right, stop := unreliablePair(verbs.UD)
	defer stop()
	const key = 0x1ee7
	group := netip.MustParseAddr("239.255.0.1")
	for _, s := range []*side{left, right} {
		s.step(verbs.QPAttr{State: verbs.StateInit, Port: 1, QKey: key}, verbs.MaskInitUD)
		s.step(verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskRTRUD)
		s.step(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskRTSUD)
		if err := s.qp.AttachMulticast(verbs.GIDOf(group), 0); err != nil {
			fmt.Println(err)
		}
		s.qp.PostRecv(verbs.RecvWR{SG: []verbs.SGE{s.mr.SGE(0, 1000)}})
	}
	all, err := left.qp.PD().CreateAH(verbs.AHTo(group))
	if err != nil {
		fmt.Println(err)
		return
	}
	left.qp.PostSend(verbs.SendWR{
		Opcode: verbs.WRSend, Flags: verbs.Inline, Data: []byte("hello, all"),
		AH: all, RemoteQPN: 0xffffff, RemoteQKey: key,
	})
	for _, s := range []*side{left, right} {
		var wc [1]verbs.WC
		for s.cq.Poll(wc[:]) == 0 {
		}
		fmt.Printf("%s, to %v\n", s.mem[roce.GRHLen:wc[0].ByteLen], (*roce.GRH)(s.mem).Dst())
	}
	// Output:
	// hello, all, to 239.255.0.1
	// hello, all, to 239.255.0.1
}
