package pingpong

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// sizes are those at which a packet or a page ends, and their neighbours.
var sizes = []int{1, 2, 255, 256, 257, 1024, 4095, 4096, 4097, 9000, 70000}

func TestOurContentsPassTheOriginalsCheck(t *testing.T) {
	for _, size := range sizes {
		b, p := make([]byte, size), ourPattern(size)
		for n := range 3 * period {
			p.fill(b, n)
			for i := 0; i < size; i += 4096 {
				if b[i] != 0 {
					t.Fatalf("byte %d of message %d is %#x: ibv_rc_pingpong -c wants the first byte of each page to be 0", i, n, b[i])
				}
			}
		}
	}
}

func TestContentsDifferFromMessageToMessage(t *testing.T) {
	p, seen := ourPattern(64), map[string]int{}
	b := make([]byte, 64)
	for n := range period {
		p.fill(b, n)
		if before, same := seen[string(b)]; same {
			t.Fatalf("messages %d and %d are the same", before, n)
		}
		seen[string(b)] = n
	}
}

func TestServerFindsOutWhatItsClientSends(t *testing.T) {
	for _, size := range sizes {
		for _, p := range patterns(size) {
			c, b := newChecker(size), make([]byte, size)
			for n := range 5 {
				p.fill(b, n)
				if err := c.check(b, n); err != nil {
					t.Fatalf("%d bytes of %s: %v", size, p.name, err)
				}
			}
			if c.done != 5 {
				t.Errorf("%d messages were compared, want 5", c.done)
			}
		}
	}
}

func TestEachWrongByteIsSeen(t *testing.T) {
	const size = 5000
	for _, p := range patterns(size)[:3] {
		for _, at := range []int{0, 1, 1023, 1024, 4095, 4096, size - 1} {
			for _, first := range []int{0, 1} { // the first message decides what is compared
				c, b := newChecker(size), make([]byte, size)
				if first == 1 {
					p.fill(b, 0)
					if err := c.check(b, 0); err != nil {
						t.Fatal(err)
					}
				}
				p.fill(b, first)
				b[at] ^= 0x10
				err := c.check(b, first)
				if !errors.Is(err, rendezvous.ErrContents) || first == 1 && !strings.Contains(err.Error(), p.name) {
					t.Errorf("%s, byte %d of message %d: got %v, want it found", p.name, at, first, err)
				}
			}
		}
	}
}

func TestAnOldMessageIsNotTakenForANewOne(t *testing.T) {
	c, b, p := newChecker(100), make([]byte, 100), ourPattern(100)
	p.fill(b, 0)
	if err := c.check(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.check(b, 1); !errors.Is(err, rendezvous.ErrContents) {
		t.Errorf("got %v, want it refused", err)
	}
}
