package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
	"github.com/gantry-rdma/gantry/roce"
)

// A block is one block of a capture file, taken apart by the specification.
type block struct {
	kind uint32
	body []byte
}

func blocks(t *testing.T, b []byte) (list []block) {
	t.Helper()
	for len(b) > 0 {
		n := int(binary.LittleEndian.Uint32(b[4:]))
		if n%4 != 0 || n < 12 || n > len(b) || int(binary.LittleEndian.Uint32(b[n-4:])) != n {
			t.Fatalf("block %d has length %d", len(list), n)
		}
		list = append(list, block{binary.LittleEndian.Uint32(b), b[8 : n-4]})
		b = b[n:]
	}
	return list
}

// captured sends frames over a link with a capture on both sides, and returns
// the two files.
func captured(t *testing.T, f fabric, n int) (sender, receiver *bytes.Buffer) {
	t.Helper()
	sender, receiver = new(bytes.Buffer), new(bytes.Buffer)
	a, b := f.open(t)
	x, y := wrapped(t, NewCapture(a, sender)), wrapped(t, NewCapture(b, receiver))
	var pool sendPool
	var frames []*frame.Frame
	for i := range n {
		frames = append(frames, pool.frame(b.Local(), i, i*7%1500, 1+i%2))
	}
	sendAll(t, x, y, frames, func(*frame.Frame) {})
	return sender, receiver
}

func TestACaptureHoldsEveryPacketWithItsICRC(t *testing.T) {
	const n = 200
	for _, f := range fabrics()[:2] {
		t.Run(f.name, func(t *testing.T) {
			sender, receiver := captured(t, f, n)
			for side, file := range map[string]*bytes.Buffer{"sender": sender, "receiver": receiver} {
				list := blocks(t, file.Bytes())
				if list[0].kind != 0x0a0d0d0a || list[1].kind != 1 || len(list) != n+2 {
					t.Fatalf("%s: %d blocks, want %d", side, len(list), n+2)
				}
				if link := binary.LittleEndian.Uint16(list[1].body); link != 101 {
					t.Errorf("link type %d, want 101", link)
				}
				for i, b := range list[2:] {
					le := binary.LittleEndian
					stamp := time.Unix(0, int64(le.Uint32(b.body[4:]))<<32|int64(le.Uint32(b.body[8:])))
					if age := time.Since(stamp); age < 0 || age > limit {
						t.Fatalf("%s: packet %d is %v old", side, i, age)
					}
					d, ok := roce.ParseIP(b.body[20:][:le.Uint32(b.body[12:])])
					if !ok || !d.Valid() {
						t.Fatalf("%s: packet %d is not valid", side, i)
					}
					p, ok := roce.Parse(d.Payload())
					if !ok || int(p.BTH().PSN()) != i || !bytes.Equal(p.Payload(), content(i, i*7%1500)) {
						t.Fatalf("%s: packet %d: %v", side, i, p)
					}
				}
			}
		})
	}
}

// What has a reserved opcode is answered, and so is worth a look.
func TestACaptureHoldsReservedOpcodes(t *testing.T) {
	var file bytes.Buffer
	a, b := ends(t, PairConfig{})
	c := wrapped(t, NewCapture(a, &file))
	f := &frame.Frame{Peer: b.Local(), HeadLen: roce.BTHLen, Pad: 1, Len: 3, Payload: [][]byte{{1, 2, 3}}}
	roce.Build((*[roce.HeadSize]byte)(&f.Head), 0x18).BTH().SetPad(1)
	c.Send([]*frame.Frame{f})
	list := blocks(t, file.Bytes())
	if len(list) != 3 {
		t.Fatalf("%d packets, want 1", len(list)-2)
	}
	d, ok := roce.ParseIP(list[2].body[20:][:binary.LittleEndian.Uint32(list[2].body[12:])])
	if !ok || !d.Valid() {
		t.Fatal("the packet is not valid")
	}
	if p, ok := roce.ParseReserved(d.Payload()); !ok || p.Opcode() != 0x18 || !bytes.Equal(p.Payload(), []byte{1, 2, 3}) {
		t.Errorf("got %v (%v)", p, ok)
	}
}

func TestTsharkReadsACapture(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	_, file := captured(t, fabrics()[0], 50)
	name := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := child.Command(t, tshark, "-r", name, "--disable-protocol", "rpcordma").CombinedOutput()
	if err != nil || strings.Count(string(out), "RRoCE") != 50 || strings.Contains(string(out), "Malformed") {
		t.Errorf("%v\n%s", err, out)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestAWriterThatFailsDoesNotStopTheLink(t *testing.T) {
	full := errors.New("disk full")
	a, b := ends(t, PairConfig{})
	c := NewCapture(a, brokenWriter{full})
	var pool sendPool
	sendAll(t, c, b, []*frame.Frame{pool.frame(b.Local(), 0, 8, 1)}, func(*frame.Frame) {})
	if err := c.Close(); !errors.Is(err, full) {
		t.Errorf("Close: %v, want %v", err, full)
	}
}

// TestOnlyWhatWasTakenIsCaptured: the rest will be sent, and written, later.
func TestOnlyWhatWasTakenIsCaptured(t *testing.T) {
	var file bytes.Buffer
	a, b := ends(t, PairConfig{Depth: 4})
	c := wrapped(t, NewCapture(a, &file))
	var pool sendPool
	var frames []*frame.Frame
	for i := range 6 {
		frames = append(frames, pool.frame(b.Local(), i, 8, 1))
	}
	if n := c.Send(frames); n != 4 {
		t.Fatalf("%d taken, want 4", n)
	}
	if got := len(blocks(t, file.Bytes())) - 2; got != 4 {
		t.Errorf("%d packets, want 4", got)
	}
}
