package roce

import (
	"strings"
	"testing"
)

func TestPrintedLine(t *testing.T) {
	for want, fill := range map[string]func(head *[HeadSize]byte) Headers{
		"RC SEND_ONLY psn=5 qp=0x11 ack pad=0 len=64": func(head *[HeadSize]byte) Headers {
			h := Build(head, RCSendOnly)
			h.BTH().SetPSN(5)
			h.BTH().SetDestQP(0x11)
			h.BTH().SetAckReq(true)
			return h
		},
		"RC SEND_LAST_INV psn=0 qp=0x0 pkey=0x7fff se mig fecn becn ack pad=3 len=64 inv=0x9": func(head *[HeadSize]byte) Headers {
			h := Build(head, RCSendLastInv)
			b := h.BTH()
			b.SetPKey(0x7fff)
			b.SetSolicited(true)
			b.SetMigReq(true)
			b.SetFECN(true)
			b.SetBECN(true)
			b.SetAckReq(true)
			b.SetPad(3)
			h.IETH().SetRKey(9)
			return h
		},
		"RC FLUSH psn=0 qp=0x0 pad=0 len=64 place=0x2 level=0x1 va=0x1000 rkey=0x2 dma=3": func(head *[HeadSize]byte) Headers {
			h := Build(head, RCFlush)
			h.FETH().Set(PlacePersistent, FlushRegion)
			h.RETH().Set(0x1000, 2, 3)
			return h
		},
		"RC 0x15 psn=0 qp=0x0 pad=0 len=64": func(head *[HeadSize]byte) Headers { return Build(head, 0x15) },
	} {
		var head [HeadSize]byte
		if got := string(fill(&head).AppendLine(nil, 64)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestPrintedLineFitsItsBuffer: String allocates once at most, because the
// longest line there can be fits.
func TestPrintedLineFitsItsBuffer(t *testing.T) {
	for o := range 256 {
		var head [HeadSize]byte
		h := Build(&head, Opcode(o))
		for i := 1; i < HeadSize; i++ {
			head[i] = 0xff
		}
		line := h.AppendLine(nil, 65535)
		if len(line) > lineSize {
			t.Errorf("got %d bytes, want at most %d: %s", len(line), lineSize, line)
		}
		if strings.ContainsAny(string(line), "\n\r\x00") {
			t.Errorf("got more than a line: %q", line)
		}
	}
}
