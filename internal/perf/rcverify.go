package perf

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// verify compares the slots of all flows with what should have arrived in this
// slice.
func (e *rcEnd) verify() error {
	if !e.test.Verify || e.failed != nil {
		return e.failed
	}
	if e.srq != nil {
		e.srq.verify(e)
		return e.failed
	}
	for i := range e.flows {
		f := &e.flows[i]
		if e.lossy {
			e.verifyLossy(i)
			continue
		}
		n := f.arrived
		if e.target && e.test.IsAtomic() {
			e.verifyWord(i, n)
			continue
		}
		e.verifyFlow(i, max(f.since, n-min(n, uint64(e.layout.slots))), n)
	}
	return e.failed
}

// verifyFlow compares the messages from first up to end, which are in their
// slots. What an atomic brings back is the count before it.
func (e *rcEnd) verifyFlow(i int, first, end uint64) {
	for m := first; m < end; m++ {
		want := e.word[:]
		if e.test.IsAtomic() {
			binary.NativeEndian.PutUint64(want, m)
		} else {
			want = e.expect[e.layout.start(m):][:e.test.Size]
		}
		e.compare(i, m, e.region[e.layout.slot(i, m):][:e.test.Size], want)
	}
}

// verifyWord compares the word that atomics have counted with.
func (e *rcEnd) verifyWord(i int, count uint64) {
	binary.NativeEndian.PutUint64(e.word[:], count)
	e.compare(i, count, e.region[e.layout.word(i):][:atomicSize], e.word[:])
}

func (e *rcEnd) compare(i int, m uint64, got, want []byte) {
	if err := compareMessage(i, m, got, want); err != nil {
		core.KeepFirst(&e.failed, err)
		return
	}
	e.verified++
}

// A WrongContents error says where memory does not hold what it should.
type WrongContents struct {
	QP      int    // number of the queue pair, from 0
	Message uint64 // from 0
	Offset  int    // of the first wrong byte in the message
	Got     byte
	Want    byte
}

// Error implements error.
func (w *WrongContents) Error() string {
	return fmt.Sprintf("wrong contents: queue pair %d, message %d, byte %d is %#02x and should be %#02x",
		w.QP, w.Message, w.Offset, w.Got, w.Want)
}

// compareMessage returns a WrongContents, or nil.
func compareMessage(qp int, m uint64, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for got[at] == want[at] {
		at++
	}
	return &WrongContents{QP: qp, Message: m, Offset: at, Got: got[at], Want: want[at]}
}
