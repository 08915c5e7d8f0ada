package roce_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/roce"
)

// A sender lays out the headers in an array of its own, and computes the ICRC
// over them and over the payload where it lies.
func ExampleBuild() {
	src, dst := netip.MustParseAddrPort("10.77.0.1:49152"), netip.MustParseAddrPort("10.77.0.2:4791")
	flow, _ := roce.NewFlow(src, dst) // once for each peer
	payload := []byte("hello")

	var head [roce.HeadSize]byte
	h := roce.Build(&head, roce.RCSendOnly)
	h.BTH().SetDestQP(0x11)
	h.BTH().SetPSN(5)
	h.BTH().SetAckReq(true)
	pad := roce.PadFor(len(payload))
	h.BTH().SetPad(pad)

	var tail [roce.ICRCLen]byte
	flow.Start(h, len(payload)+pad, roce.Segment(0)).Add(payload).AddPad(pad).Put(&tail)

	fmt.Println(string(h.AppendLine(nil, len(payload))))
	fmt.Println(hex.EncodeToString(h.Bytes()))
	// Output:
	// RC SEND_ONLY psn=5 qp=0x11 ack pad=3 len=5
	// 0430ffff0000001180000005
}

// A receiver parses the UDP payload, and checks the ICRC with what it knows of
// the headers below. This packet came from a ConnectX-4 Lx, whose IPv4 ID a
// socket would not show; the check finds it.
func ExampleFlow_Check() {
	b, _ := hex.DecodeString("8100ffff400001180000000000000000000000000000000000000000" + "82fd002a")
	packet, ok := roce.Parse(b)
	if !ok {
		return
	}
	flow, _ := roce.NewFlow(netip.MustParseAddrPort("10.0.17.1:0"), netip.MustParseAddrPort("10.0.18.1:4791"))

	id, ok := flow.Check(packet, roce.Segment(0))
	fmt.Println(packet)
	fmt.Printf("ok=%v id=%#x df=%v\n", ok, id.ID, id.DF)
	// Output:
	// CNP psn=0 qp=0x118 becn pad=0 len=16
	// ok=true id=0x718c df=true
}

// PSNs wrap after 24 bits, so only their difference says which is later.
func ExamplePSN_Sub() {
	before, after := roce.PSN(0xffffff), roce.PSN(2)
	fmt.Println(after.Sub(before), before.Sub(after), before.Next())
	// Output: 3 -3 0
}

// The opcode table says what a packet is and which headers it has.
func ExampleOpcode_Has() {
	for _, o := range []roce.Opcode{roce.RCWriteOnlyImm, roce.UDSendOnly, roce.RCAck} {
		fmt.Println(o, o.HeadLen(), o.Has(roce.HasImmDt), o.Has(roce.IsOnly|roce.IsRequest), o.Has(roce.TakesReceive))
	}
	// Output:
	// RC WRITE_ONLY_IMM 32 true true true
	// UD SEND_ONLY 20 false true true
	// RC ACK 16 false false false
}
