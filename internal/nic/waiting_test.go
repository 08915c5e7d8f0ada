package nic

import (
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// read returns a READ request of 8 bytes.
func (b *bench) read(psn int) *frame.Frame {
	return b.packet(roce.RCReadRequest, 0, func(_ *frame.Frame, h roce.Headers) {
		h.BTH().SetPSN(roce.NewPSN(uint32(psn)))
		h.RETH().Set(b.mr.Addr(), b.mr.Key(), 8)
	})
}

// The queue pair has promised to take 4.
func TestMoreReadsThanWerePromisedAreRefused(t *testing.T) {
	b := newBench(t)
	for n := range 3 {
		first := 100 + 4*n
		b.s.arrive(b.d, b.read(first), b.read(first+1), b.read(first+2), b.read(first+3))
	}
	if s, _ := b.q.State(); s != RTS || len(b.s.sent) != 12 {
		t.Fatalf("got %v and %d answers to 3 times 4 READs, want RTS and 12", s, len(b.s.sent))
	}
	b.s.arrive(b.d, b.read(112), b.read(113), b.read(114), b.read(115), b.read(116))
	if s, _ := b.q.State(); s != Err {
		t.Errorf("got %v after 5 READs, want ERR", s)
	}
	if n := len(b.s.sent); n != 17 || b.s.sent[15] != roce.RCReadResponseOnly || b.s.sent[16] != roce.RCAck {
		t.Errorf("got %v in answer, want 4 more READ responses and a NAK", b.s.sent[12:])
	}
}

func TestAReservedOpcodeIsRefused(t *testing.T) {
	b := newBench(t)
	b.s.arrive(b.d, b.packet(0x18, 8, nil))
	if s, _ := b.q.State(); s != Err || !slices.Equal(b.s.sent, []roce.Opcode{roce.RCAck}) {
		t.Errorf("got %v and %v, want ERR and a NAK", s, b.s.sent)
	}
}

// What came since an item's run began lies in its inbox, newest first.
func TestWaitingIsAllThatHasArrived(t *testing.T) {
	h := new(half)
	h.done = new([outBatch]*frame.Frame)
	var f [5]frame.Frame
	f[1].Next = &f[0]
	h.in.put(&f[1], &f[0], 2)
	h.next()
	h.finish() // f[0], which was not given back
	for i := range f[2:] {
		h.in.put(&f[2+i], &f[2+i], 1)
	}
	if got := h.Waiting(4); got != nil {
		t.Errorf("got packets, want none: no more than 4 wait")
	}
	var got []*frame.Frame
	for x := h.Waiting(3); x != nil; x = x.Next {
		got = append(got, x)
	}
	if want := []*frame.Frame{&f[1], &f[2], &f[3], &f[4]}; !slices.Equal(got, want) {
		t.Errorf("got %d packets, want those that are left in the order in which they came", len(got))
	}
	if h.in.take() != nil {
		t.Error("a packet is in two lists")
	}
}
