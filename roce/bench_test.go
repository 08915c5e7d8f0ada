package roce

import (
	"fmt"
	"testing"
)

var sink uint32

func BenchmarkParse(b *testing.B) {
	for _, o := range []Opcode{RCSendMiddle, RCWriteOnlyImm, RCAck} {
		b.Run(o.Name(), func(b *testing.B) {
			ip := assemble(b, Path{Src: ends4[0], Dst: ends4[1]}, o, make([]byte, 64*int(o.Traits()&HasPayload/HasPayload)))
			d, _ := ParseIP(ip)
			udp := d.Payload()
			for b.Loop() {
				p, ok := Parse(udp)
				if !ok {
					b.Fatal("got no packet")
				}
				sink += uint32(p.BTH().PSN()) + uint32(len(p.Payload()))
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	var head [HeadSize]byte
	for b.Loop() {
		h := Build(&head, RCWriteFirst)
		t := h.BTH()
		t.SetDestQP(0x11)
		t.SetPSN(PSN(sink & 0xffffff))
		h.RETH().Set(1, 2, 3)
		sink++
	}
}

func BenchmarkAppend(b *testing.B) {
	d, _ := ParseIP(assemble(b, Path{Src: ends4[0], Dst: ends4[1]}, RCWriteOnlyImm, make([]byte, 64)))
	p, _ := Parse(d.Payload())
	line := make([]byte, 0, lineSize)
	for b.Loop() {
		line = p.Append(line[:0])
	}
}

// BenchmarkICRC is what a sender pays: headers, payload in one piece.
func BenchmarkICRC(b *testing.B) {
	f, _ := NewFlow(ends4[0], ends4[1])
	for _, n := range []int{0, 64, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			payload := make([]byte, n)
			var head [HeadSize]byte
			h := Build(&head, RCSendMiddle)
			b.SetBytes(int64(n))
			for b.Loop() {
				sink += uint32(f.Start(h, n, Segment(0)).Add(payload))
			}
		})
	}
}

// BenchmarkCheck is what a receiver pays, when the first guess is right and
// when the identification is to be found.
func BenchmarkCheck(b *testing.B) {
	f, _ := NewFlow(ends4[0], ends4[1])
	for _, id := range []uint16{0, 0x718c} {
		for _, n := range []int{64, 1024, 4096} {
			b.Run(fmt.Sprintf("id=%d/%d", id, n), func(b *testing.B) {
				d, _ := ParseIP(assemble(b, Path{Src: ends4[0], Dst: ends4[1], Ident: Ident{id, true}}, RCSendMiddle, make([]byte, n)))
				p, _ := Parse(d.Payload())
				b.SetBytes(int64(n))
				for b.Loop() {
					if _, ok := f.Check(p, Segment(0)); !ok {
						b.Fatal("got a wrong ICRC")
					}
				}
			})
		}
	}
}

// BenchmarkDatagramValid is the check of a whole IP packet.
func BenchmarkDatagramValid(b *testing.B) {
	d, _ := ParseIP(assemble(b, Path{Src: ends4[0], Dst: ends4[1]}, RCSendMiddle, make([]byte, 1024)))
	b.SetBytes(1024)
	for b.Loop() {
		if !d.Valid() {
			b.Fatal("got a wrong ICRC")
		}
	}
}

func BenchmarkNewFlow(b *testing.B) {
	for b.Loop() {
		f, _ := NewFlow(ends4[0], ends4[1])
		sink += f.seed
	}
}
