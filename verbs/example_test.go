package verbs_test

import (
	"fmt"

	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// Two devices of one process send each other a message. Polling drives them.
func Example() {
	x := work.NewInline()
	defer x.Close()
	a, b, err := verbs.OpenPair(verbs.Config{Executor: x}, verbs.Config{Executor: x})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	defer b.Close()

	left, right := newSide(a), newSide(b)
	left.connect(b, right.qp.Num())
	right.connect(a, left.qp.Num())

	copy(left.mem, "hello")
	if _, err := right.qp.PostRecv(verbs.RecvWR{ID: 1, SG: []verbs.SGE{right.mr.SGE(0, 64)}}); err != nil {
		fmt.Println(err)
	}
	if _, err := left.qp.PostSend(verbs.SendWR{
		ID: 2, Opcode: verbs.WRSend, Flags: verbs.Signaled, SG: []verbs.SGE{left.mr.SGE(0, 5)},
	}); err != nil {
		fmt.Println(err)
	}
	var wc [1]verbs.WC
	for right.cq.Poll(wc[:]) == 0 {
	}
	fmt.Printf("%v %v: %s\n", wc[0].Opcode, wc[0].Status, right.mem[:wc[0].ByteLen])
	for left.cq.Poll(wc[:]) == 0 {
	}
	fmt.Printf("%v %v\n", wc[0].Opcode, wc[0].Status)
	// Output:
	// RECV SUCCESS: hello
	// SEND SUCCESS
}

// A side is what one end of a connection needs.
type side struct {
	mem []byte
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
}

func newSide(d *verbs.Device) *side { return newSideOf(d, verbs.RC) }

func newSideOf(d *verbs.Device, of verbs.QPType) *side {
	s := &side{mem: make([]byte, 4096)}
	pd := d.AllocPD()
	s.mr, _ = pd.RegMR(s.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	s.cq, _ = d.CreateCQ(16, nil, nil)
	s.qp, _ = pd.CreateQP(verbs.QPInit{
		Type: of, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	})
	return s
}

// connect takes the queue pair through its states. What it has to know of the
// peer travels by other means: here, as arguments.
func (s *side) connect(peer *verbs.Device, qpn uint32) {
	for _, step := range []struct {
		attr verbs.QPAttr
		mask verbs.AttrMask
	}{
		{verbs.QPAttr{State: verbs.StateInit, Port: 1}, verbs.MaskInit},
		{verbs.QPAttr{
			State: verbs.StateRTR, AV: verbs.AVTo(peer.Addr()), PathMTU: roce.MTU1024, DestQPN: qpn,
			MinRNRTimer: 12, MaxDestRdAtomic: 1,
		}, verbs.MaskRTR},
		{verbs.QPAttr{State: verbs.StateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxQPRdAtomic: 1}, verbs.MaskRTS},
	} {
		if err := s.qp.Modify(step.attr, step.mask); err != nil {
			fmt.Println(err)
		}
	}
}

// An error of a call says what was wrong with it, and is a number besides.
func ExamplePD_RegMR() {
	a, b, err := verbs.OpenPair(verbs.Config{}, verbs.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	defer b.Close()
	_, err = a.AllocPD().RegMR(make([]byte, 8), verbs.AccessRemoteWrite)
	fmt.Println(err)
	// Output: register for remote write or atomic without local write: invalid argument
}
