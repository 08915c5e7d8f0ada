package comch

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

// fill makes contents that depend on a seed and the place.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

// Messages of all kinds arrive as they were sent, in both directions: data,
// lists, immediate data, and immediate data alone.
func TestMessagesArriveAsTheyWereSent(t *testing.T) {
	r := newFastRig(t)
	for side := range 2 {
		in := r.newSink(1-side, r.engine[1-side], 4, 4<<20)
		out := r.newSource(side, r.engine[side], 4, 4<<20)
		in.start()
		for _, c := range []struct {
			size, pieces int
			imm          string
		}{
			{1, 1, ""}, {64, 1, "x"}, {0, 1, "only immediate data, of 32 bytes"}, {4096, 3, ""}, {4097, 1, "y"},
			{65536, 64, ""}, {1 << 20, 1, ""}, {3<<20 + 1, 5, "z"},
		} {
			fill(out.mem[:c.size], c.size+side)
			clear(in.mem)
			in.post(5, c.size)
			task := out.task(0, 0, c.imm, in.ID())
			r.want("set the buf", task.SetBuf(out.list(c.size, c.pieces)), nil)
			var got *PostRecv
			in.onRecv = func(t *PostRecv) { got = t }
			sent := out.sent
			r.want("submit", task.TrySubmit(), nil)
			r.until("arrived", func() bool { return got != nil && out.sent == sent+1 })
			if got.Len() != c.size || string(got.Imm()) != c.imm || got.ProducerID() != out.ID() {
				t.Errorf("got %d bytes, immediate data %q from %d; want %d, %q from %d",
					got.Len(), got.Imm(), got.ProducerID(), c.size, c.imm, out.ID())
			}
			if c.size > 0 && !bytes.Equal(got.Buf().Data(), out.mem[:c.size]) {
				t.Errorf("%d bytes in %d pieces: wrong contents", c.size, c.pieces)
			}
			in.drop(got)
		}
		if got := r.told[side]; len(got) == 0 {
			t.Error("no event about the consumer")
		}
		r.want("stop", in.Stop(), core.ErrInProgress)
		r.until("expired", func() bool { return slices.Contains(r.expired[side], in.ID()) && in.State() == core.Idle })
	}
}
