package roce

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestGoldenOpcodeTable prints all that the package knows of all 256 opcodes,
// for reading beside the specification.
func TestGoldenOpcodeTable(t *testing.T) {
	var b strings.Builder
	for o := range 256 {
		if o := Opcode(o); o.Known() {
			fmt.Fprintf(&b, "%02x %-24v head %2d %s\n", uint8(o), o, o.HeadLen(), strings.Join(words(o), " "))
		}
	}
	checkGolden(t, "testdata/opcodes.txt", []byte(b.String()))
}

// words names the traits of o.
func words(o Opcode) []string {
	all := []struct {
		trait Traits
		name  string
	}{
		{IsRequest, "request"}, {IsResponse, "response"},
		{IsSend, "send"}, {IsWrite, "write"}, {IsRead, "read"}, {IsReadResponse, "read-response"},
		{IsAtomic, "atomic"}, {IsAck, "ack"}, {IsFlush, "flush"}, {IsAtomicWrite, "atomic-write"},
		{HasPayload, "payload"}, {HasDETH, "DETH"}, {HasFETH, "FETH"}, {HasRETH, "RETH"},
		{HasAtomicETH, "AtomicETH"}, {HasAETH, "AETH"}, {HasAtomicAckETH, "AtomicAckETH"},
		{HasImmDt, "ImmDt"}, {HasIETH, "IETH"},
		{TakesReceive, "takes-receive"}, {EndsReceive, "ends-receive"},
	}
	position := map[Traits]string{IsStart: "first", 0: "middle", IsEnd: "last", IsOnly: "only"}
	list := []string{position[o.Traits()&IsOnly]}
	for _, a := range all {
		if o.Has(a.trait) {
			list = append(list, a.name)
		}
	}
	return list
}

// TestOpcodeNamesAgreeWithTraits holds the table against itself: what the name
// says is what the masks say.
func TestOpcodeNamesAgreeWithTraits(t *testing.T) {
	known := 0
	for i := range 256 {
		o := Opcode(i)
		if !o.Known() {
			if o.HeadLen() != BTHLen || o.Traits() != 0 || o.Name() != "" {
				t.Errorf("%v is not known and has %d bytes, traits %#x", o, o.HeadLen(), o.Traits())
			}
			continue
		}
		known++
		name := o.Name()
		for part, trait := range map[string]Traits{
			"SEND_": IsSend, "WRITE_": IsWrite, "READ_RESPONSE": IsReadResponse, "READ_REQUEST": IsRead,
			"_IMM": HasImmDt, "_INV": HasIETH, "ACK": IsAck, "FLUSH": IsFlush, "ATOMIC_WRITE": IsAtomicWrite,
		} {
			if got, want := o.Has(trait), strings.Contains(name, part); got != want {
				t.Errorf("%v: trait of %s is %v, want %v", o, part, got, want)
			}
		}
		if o != CNP && o.Has(IsRequest) == o.Has(IsResponse) {
			t.Errorf("%v is request and response, or neither", o)
		}
		if o.Has(HasDETH) != (o.Transport() == UD) {
			t.Errorf("%v: DETH is for UD", o)
		}
	}
	if known != 25+12+2+1 {
		t.Errorf("got %d opcodes, want 25 of RC, 12 of UC, 2 of UD and the CNP", known)
	}
}

// TestOpcodeConstantsNameTheirRow compares every constant's name in the source
// with the name in the table.
func TestOpcodeConstantsNameTheirRow(t *testing.T) {
	source, err := os.ReadFile("opcode.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(source)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != "Opcode" || f[2] != "=" {
			continue
		}
		var o Opcode
		if _, err := fmt.Sscanf(f[3], "0x%x", &o); err != nil {
			t.Fatal(err)
		}
		if got := strings.NewReplacer(" ", "", "_", "").Replace(o.String()); !strings.EqualFold(got, f[0]) {
			t.Errorf("%s is the opcode of %v", f[0], o)
		}
		n++
	}
	if n != 40 {
		t.Errorf("got %d constants, want 40", n)
	}
}

func TestTransportsAreTheUpperBits(t *testing.T) {
	for o, want := range map[Opcode]string{
		RCSendOnly: "RC SEND_ONLY", UCSendOnly: "UC SEND_ONLY", UDSendOnly: "UD SEND_ONLY", CNP: "CNP",
		0x15: "RC 0x15", 0x44: "RD 0x44", 0x80: "CNP 0x80", 0xa4: "XRC 0xa4", 0xc0: "? 0xc0", 0xff: "? 0xff",
	} {
		if got := o.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
