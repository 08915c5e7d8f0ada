package rping

import (
	"strconv"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// The letters of a text: A to z, with what ASCII has in between.
const (
	firstLetter = 'A'
	letters     = 'z' - 'A' + 1
)

// fill writes the text of ping n, counted from 0: its name, letters that begin
// one further with each ping, and a zero at the end. What does not fit is cut.
func fill(b []byte, n int) {
	var name [32]byte
	head := append(strconv.AppendInt(append(name[:0], "rdma-ping-"...), int64(n), 10), ": "...)
	letter := n % letters
	for i := copy(b, head); i < len(b); i++ {
		b[i] = firstLetter + byte(letter)
		letter = (letter + 1) % letters
	}
	b[len(b)-1] = 0
}

// compare wants got to be the text of ping n.
func compare(got, want []byte, n int) error {
	for i, w := range want {
		if got[i] != w {
			return rendezvous.Errorf(rendezvous.ErrContents, "byte %d of ping %d is 0x%02x, and 0x%02x was sent", i, n, got[i], w)
		}
	}
	return nil
}
