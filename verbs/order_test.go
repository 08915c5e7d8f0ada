package verbs_test

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A watch looks at the responses that leave a device: nothing acknowledged may
// be followed by something that was acknowledged before.
type watch struct {
	link.Link
	mu   sync.Mutex
	last map[uint32]ack // by destination
	acks int
	late []string
}

type ack struct {
	psn roce.PSN
	msn uint32
}

func (w *watch) Send(frames []*frame.Frame) int {
	// The link may give a frame away before Send returns, so look first; what
	// is not taken is looked at again, and is equal then.
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range frames {
		h, _, ok := roce.ParseHeaders(f.Head[:f.HeadLen])
		if !ok || !h.Opcode().Has(roce.IsResponse) {
			continue
		}
		now := w.last[h.BTH().DestQP()]
		old, known := now, now != ack{}
		now.psn = h.BTH().PSN()
		if a := h.AETH(); a != nil {
			now.msn = a.MSN()
		}
		// With the message count unchanged it may be the answer to a request that
		// came twice, which names what is older.
		newer := int32(now.msn-old.msn) << 8
		if known && (newer < 0 || newer > 0 && now.psn.Sub(old.psn) < 0) {
			w.late = append(w.late, h.Opcode().String())
		}
		w.last[h.BTH().DestQP()] = now
		w.acks++
	}
	return w.Link.Send(frames)
}

// Danger 2: the expected PSN moves on before its acknowledgement leaves, so
// with two runs of one half at once the later one could leave first.
func TestAcknowledgementsNeverOvertake(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		w := &watch{last: map[uint32]ack{}}
		da, db, err := OpenPair(Config{Executor: x}, Config{Executor: x,
			Wrap: func(l link.Link) (link.Link, error) { w.Link = l; return w, nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		defer db.Close()
		defer da.Close()
		s := standard()
		s.cqe = 4096
		rigs := []*rig{newRig(t, da, db, s), newRig(t, da, db, s), newRig(t, da, db, s)}
		var all sync.WaitGroup
		for _, r := range rigs {
			all.Go(func() { r.exchange(400) })
		}
		all.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.late) > 0 {
			t.Errorf("got %d of %d responses after a later one: %v", len(w.late), w.acks, w.late[0])
		}
		if w.acks < 100 {
			t.Errorf("got %d responses to look at, want many", w.acks)
		}
	})
}

// exchange sends n messages from a to b, with READs in between, and checks what
// arrives and in which order.
func (r *rig) exchange(n int) {
	const size = 2500
	var wc [16]WC
	posted, sent, got, done := 0, 0, 0, 0
	until(r.t, "an exchange", func() bool {
		for posted < n && posted-got < 8 {
			r.b.recv(RecvWR{ID: uint64(posted), SG: []SGE{r.b.mr.SGE(posted%8*size, size)}})
			posted++
		}
		for sent < posted && sent-done/2 < 8 && sent-got < 8 {
			at := sent % 8 * size
			for i := range size {
				r.a.mem[at+i] = byte(sent + i)
			}
			r.a.send(
				SendWR{ID: uint64(2 * sent), Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(at, size)}},
				SendWR{ID: uint64(2*sent + 1), Opcode: WRRDMARead, Flags: Signaled, SG: []SGE{r.a.mr.SGE(131072, 1500)},
					RemoteAddr: r.b.mr.Addr() + 65536, RKey: r.b.mr.RKey()})
			sent++
		}
		for _, c := range wc[:r.a.scq.Poll(wc[:])] {
			if c.Status != WCSuccess || c.ID != uint64(done) {
				r.t.Errorf("got completion %d with %v, want %d", c.ID, c.Status, done)
			}
			done++
		}
		for _, c := range wc[:r.b.cq.Poll(wc[:])] {
			if c.Status != WCSuccess || c.ID != uint64(got) {
				r.t.Errorf("got receive %d with %v, want %d", c.ID, c.Status, got)
			}
			for i, b := range r.b.mem[got%8*size:][:size] {
				if b != byte(got+i) {
					r.t.Errorf("got byte %d of message %d wrong", i, got)
					break
				}
			}
			got++
		}
		return got == n && done == 2*n
	})
}

// A wake-up that is lost leaves a message behind for ever, because nothing
// follows it: one message at a time, from many goroutines, without timers that
// would help.
func TestNoMessageIsLeftBehind(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		var all sync.WaitGroup
		for range 4 {
			s := standard()
			s.timeout = 0
			r := newRig(t, da, db, s)
			all.Go(func() {
				for range 300 {
					r.b.recv(RecvWR{SG: []SGE{r.b.mr.SGE(0, 100)}})
					r.a.send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 100)}})
					r.a.good(r.a.scq)
					r.b.good(r.b.cq)
				}
			})
		}
		all.Wait()
	})
}

// When a send has completed its memory is the program's: what it writes there
// must not reach the peer.
func TestMemoryIsNotReadAfterItsCompletion(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		r := newRig(t, da, db, standard())
		const size = 9000
		want := bytes.Repeat([]byte{1}, size)
		for n := range 200 {
			copy(r.a.mem[:size], want)
			r.b.recv(RecvWR{SG: []SGE{r.b.mr.SGE(0, size)}})
			r.a.send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, size)}})
			r.a.good(r.a.scq)
			fill(r.a.mem[:size], 77)
			r.b.good(r.b.cq)
			if !bytes.Equal(r.b.mem[:size], want) {
				t.Fatalf("got bytes in message %d that were written after its completion", n)
			}
		}
	})
}

// A holder keeps what was received for a while, as a slow peer does.
type holder struct {
	link.Link
	hold atomic.Bool
	mu   sync.Mutex
	kept []*frame.Frame
}

func (h *holder) Give(frames []*frame.Frame) {
	if !h.hold.Load() {
		h.Link.Give(frames)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, frames...)
}

func (h *holder) release() {
	h.hold.Store(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Link.Give(h.kept)
	h.kept = nil
}

// holdingRig has a peer that keeps the frames of one SEND.
func holdingRig(t *testing.T, n int) (*rig, *holder) {
	h := new(holder)
	x := executors[n].make()
	da, db, err := OpenPair(Config{Executor: x}, Config{Executor: x,
		Wrap: func(l link.Link) (link.Link, error) { h.Link = l; return h, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.release()
		da.Close()
		db.Close()
		x.Close()
	})
	r := newRig(t, da, db, standard())
	h.hold.Store(true)
	r.b.recv(RecvWR{SG: []SGE{r.b.mr.SGE(0, 3000)}})
	r.a.send(SendWR{ID: 1, Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 3000)}})
	r.b.good(r.b.cq)
	return r, h
}

func TestACompletionWaitsForItsFrames(t *testing.T) {
	for n := range executors {
		r, h := holdingRig(t, n)
		until(t, "the acknowledgement", func() bool { r.a.dev.Drive(0); return r.a.dev.Counter("rcvd_pkts") > 0 })
		var wc [1]WC
		for range 1000 {
			if r.a.scq.Poll(wc[:]) != 0 {
				t.Fatal("got the completion of a send whose frames are out")
			}
		}
		h.release()
		r.a.good(r.a.scq)
	}
}

func TestMemoryStaysWhileFramesAreOut(t *testing.T) {
	for n := range executors {
		for what, give := range map[string]func(r *rig) error{
			"Dereg":   func(r *rig) error { return r.a.mr.Dereg() },
			"Rereg":   func(r *rig) error { return r.a.mr.Rereg(Rereg{}) },
			"Dealloc": func(r *rig) error { return must(r.a.pd.AllocMW(MWType1))(t).Dealloc() },
			"Destroy": func(r *rig) error { return r.a.qp.Destroy() },
			"RESET":   func(r *rig) error { return r.a.qp.Modify(QPAttr{State: StateReset}, AttrState) },
		} {
			r, h := holdingRig(t, n)
			done, began := make(chan struct{}), make(chan struct{})
			go func() {
				close(began)
				if err := give(r); err != nil {
					t.Errorf("got error %v from %s, want none", err, what)
				}
				close(done)
			}()
			<-began
			for range 200 {
				r.a.dev.Drive(0)
			}
			select {
			case <-done:
				t.Errorf("got %s done while frames are out", what)
			default:
			}
			h.release()
			<-done
		}
	}
}
