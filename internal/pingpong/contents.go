package pingpong

import (
	"bytes"
	"slices"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// plainByte fills the messages of the originals.
const plainByte = 0x7b

// A pattern makes the contents of messages. The zero value is what the
// originals send.
type pattern struct {
	name   string
	page   int    // each byte whose index is a multiple of it is zero; 0: none
	series []byte // message n begins at n modulo period of it; nil: all plainByte
}

// period is after how many messages contents repeat: a prime number, so that
// neither pages nor packets are a multiple of it.
const period = 251

// checkedPage is the smallest page that there is: with -c the originals look
// at one byte of each page, which has to be zero.
const checkedPage = 4096

// ourPattern differs from message to message, so that an old one is not taken
// for a new one, and satisfies the originals' check.
func ourPattern(size int) pattern {
	series := make([]byte, size+period)
	state := uint32(1)
	for i := range series {
		state = state*1664525 + 1013904223
		series[i] = 0x80 | byte(state>>24) // never plainByte
	}
	return pattern{"this program", checkedPage, series}
}

// patterns are all that a message may hold.
func patterns(size int) []pattern {
	return []pattern{
		ourPattern(size), {name: "an original"}, {"an original with -c", 4096, nil},
		{"an original with -c", 16384, nil}, {"an original with -c", 65536, nil},
	}
}

// fill writes message n.
func (p *pattern) fill(b []byte, n int) {
	if p.series != nil {
		copy(b, p.series[n%period:])
	} else {
		for i := range b {
			b[i] = plainByte
		}
	}
	if p.page > 0 {
		for i := 0; i < len(b); i += p.page {
			b[i] = 0
		}
	}
}

// A checker compares each message with what it has to be.
type checker struct {
	known []pattern // that may be meant; the first message decides
	want  []byte
	done  int // messages that were compared
}

// newChecker makes one for messages of a size. Without a pattern it finds out
// with the first message which one the other end uses.
func newChecker(size int, known ...pattern) *checker {
	if len(known) == 0 {
		known = patterns(size)
	}
	return &checker{known: known, want: make([]byte, size)}
}

// check compares message n, counted from 0.
func (c *checker) check(got []byte, n int) error {
	if len(c.known) > 1 {
		fits := slices.IndexFunc(c.known, func(p pattern) bool {
			p.fill(c.want, n)
			return bytes.Equal(got, c.want)
		})
		c.known = c.known[max(fits, 0):][:1]
	}
	c.known[0].fill(c.want, n)
	if bytes.Equal(got, c.want) {
		c.done++
		return nil
	}
	at := 0
	for at < len(got) && got[at] == c.want[at] {
		at++
	}
	return rendezvous.Errorf(rendezvous.ErrContents, "byte %d of message %d is 0x%02x, and 0x%02x in what %s sends",
		at, n+1, got[at], c.want[at], c.known[0].name)
}
