package perf

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"github.com/gantry-rdma/gantry/roce"
)

// An rcLayout says where things lie in the memory of an end, which is the same
// at both ends:
//
//	| pattern: size + 509 * 64 | queue pair 0: slot 0, slot 1 ... | queue pair 1 ... | words |
//
// With a shared receive queue there are only the slots of queue pair 0, for
// all. Before the slot of a datagram there is room for its GRH.
//
// What is sent comes from the pattern, random bytes that are never written
// again. Message number m starts at 64 * (m mod 509) in it, so all bytes of
// successive messages differ, and nothing is written to make them so. It arrives
// in slot m mod slots. As slots is a power of two and 509 is a prime, what a
// slot had before is never right for the next message. A word of the atomics
// counts the operations of one queue pair.
type rcLayout struct {
	size   int
	grh    int // bytes before what was sent
	qps    int // that have slots of their own
	slots  int // of a queue pair
	stride int // from one slot to the next
	first  int // offset of the first slot
	words  int // offset of the first word
	bytes  int
}

const (
	patternStarts = 509
	lineSize      = 64
)

func layoutOf(t *RCTest) rcLayout {
	depth := t.SendDepth
	if !t.oneSided() {
		depth = max(depth, t.RecvDepth)
	}
	l := rcLayout{size: t.Size, qps: t.QPs, slots: 1 << bits.Len(uint(depth-1)), stride: alignLine(t.Size)}
	if t.SRQ {
		l.qps = 1
	}
	l.first = alignLine(t.Size) + patternStarts*lineSize
	if t.Transport == "UD" {
		l.grh = roce.GRHLen
		l.stride += lineSize
		l.first += lineSize
	}
	l.words = l.first + l.qps*l.slots*l.stride
	l.bytes = l.words + t.QPs*lineSize
	return l
}

func alignLine(n int) int { return (n + lineSize - 1) &^ (lineSize - 1) }

// start returns the offset at which message m begins in the pattern.
func (l *rcLayout) start(m uint64) int { return int(m%patternStarts) * lineSize }

// slot returns the offset of the slot for message m of a queue pair.
func (l *rcLayout) slot(qp int, m uint64) int {
	if l.qps == 1 {
		qp = 0
	}
	return l.first + (qp*l.slots+int(m&uint64(l.slots-1)))*l.stride
}

// word returns the offset of the word of a queue pair.
func (l *rcLayout) word(qp int) int { return l.words + qp*lineSize }

// patternOf fills b with the pattern of one of the two ends.
func patternOf(b []byte, seed, end uint64) {
	r := rand.NewPCG(seed, end)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(r.Uint64())
	}
}
