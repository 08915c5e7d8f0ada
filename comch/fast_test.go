package comch

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
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

// A message longer than the receive fails and leaves the receive posted; so
// does immediate data that the consumer does not take.
func TestTooLongLeavesTheReceivePosted(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 1, 4096)
	out := r.newSource(1, r.engine[1], 4, 4096)
	r.want("immediate data", in.SetImmDataLen(4), nil)
	in.start()
	in.post(0, 100)
	got := 0
	in.onRecv = func(t *PostRecv) { got = t.Len(); in.drop(t) }
	r.want("submit", out.task(0, 101, "", in.ID()).Submit(), nil)
	r.want("submit", out.task(0, 100, "12345", in.ID()).Submit(), nil)
	tried := out.task(0, 100, "12345", in.ID())
	r.want("try", tried.TrySubmit(), core.ErrTooBig)
	out.drop(tried)
	last := out.task(0, 100, "1234", in.ID())
	r.want("submit", last.TrySubmit(), nil)
	r.until("the last arrives", func() bool { return got == 100 && out.sent == 1 })
	if want := []core.Status{core.ErrTooBig, core.ErrTooBig}; !slices.Equal(out.failed, want) {
		t.Errorf("statuses %v, want %v", out.failed, want)
	}
}

// Submit answers AGAIN while no receive is posted, from the first one on
// it does not, and nothing on the sender's side is progressed for that.
func TestCreditsNeedNoProgressOfTheSender(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 3, 4096)
	out := r.newSource(1, r.engine[1], 8, 4096)
	in.start()
	task := out.task(0, 10, "", in.ID())
	for range 3 {
		r.want("submit without a receive", task.Submit(), core.ErrAgain)
	}
	in.post(0, 10)
	r.want("submit", task.Submit(), nil)
	other := out.task(0, 10, "", in.ID())
	r.want("submit without a second receive", other.Submit(), core.ErrAgain)
	in.post(100, 10)
	in.post(200, 10)
	r.want("submit", other.Submit(), nil)
	r.want("submit", out.task(0, 10, "", in.ID()).Submit(), nil)
	refused := out.task(0, 10, "", in.ID())
	r.want("submit without a fourth receive", refused.TrySubmit(), core.ErrAgain)
	out.drop(refused)
	r.until("sent", func() bool { return out.sent == 3 })
}

// The sender's engine alone brings its completions, from a submit within the
// callback that says that it runs.
func TestCompletionNeedsOnlyTheProducersEngine(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 2, 1<<20)
	in.start()
	in.post(0, 1<<20)
	in.post(0, 64)
	own := r.newEngine()
	out := r.newSource(1, own, 2, 1<<20)
	r.want("stop", out.Stop(), nil)
	out.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			r.want("submit", out.task(0, 1<<20, "", in.ID()).Submit(), nil)
			r.want("submit", out.task(0, 64, "", in.ID()).Submit(), nil)
		}
	})
	r.want("start", out.Start(), nil)
	for range 100 {
		own.Progress()
	}
	if out.sent != 2 {
		t.Errorf("%d completions, want 2", out.sent)
	}
	out.SetStateFunc(nil)
}

// Consumers that do not exist, and tasks that make no sense, fail when their
// turn comes, and the producer goes on.
func TestWrongSendsFailAndNothingElse(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 2, 4096)
	out := r.newSource(1, r.engine[1], 8, 4096)
	in.start()
	in.post(0, 100)
	empty := out.data(0, 10)
	r.want("reset", empty.ResetDataLen(), nil)
	long := out.list(maxSendList+1, maxSendList+1)
	foreign := in.data(0, 10)
	for _, c := range []struct {
		name   string
		task   *ProducerSend
		status core.Status
	}{
		{"id 0", out.task(0, 10, "", 0), core.ErrNotFound},
		{"id 0xffff", out.task(0, 10, "", 0xffff), core.ErrNotFound},
		{"an id of nobody", out.task(0, 10, "", in.ID()+1), core.ErrNotFound},
		{"nothing to send", out.task(0, 0, "", in.ID()), core.ErrInvalidValue},
		{"no data", withBuf(out.task(0, 0, "", in.ID()), empty), core.ErrInvalidValue},
		{"a list too long", withBuf(out.task(0, 0, "", in.ID()), long), core.ErrInvalidValue},
		{"memory of another device", withBuf(out.task(0, 0, "", in.ID()), foreign), core.ErrInvalidValue},
	} {
		r.want("try "+c.name, c.task.TrySubmit(), c.status)
		r.want("submit "+c.name, c.task.Submit(), nil)
		before := len(out.failed)
		r.until("failed", func() bool { return len(out.failed) > before })
		if got := out.failed[before]; got != c.status {
			t.Errorf("%s: %v, want %v", c.name, got, c.status)
		}
	}
	_, err := out.AllocSend(nil, make([]byte, maxImmData+1), in.ID())
	r.want("immediate data too long", err, core.ErrInvalidValue)
	done := false
	in.onRecv = func(t *PostRecv) { done = true; in.drop(t) }
	r.want("submit", out.task(0, 10, "", in.ID()).Submit(), nil)
	r.until("the right one arrives", func() bool { return done })
}

func withBuf(t *ProducerSend, b *mem.Buf) *ProducerSend {
	_ = t.SetBuf(b)
	return t
}

// Receives that make no sense fail, and the others are filled.
func TestWrongReceivesFailAndNothingElse(t *testing.T) {
	r := newFastRig(t)
	in := r.newSink(0, r.engine[0], 8, 4096)
	other := r.newShelf(0, 4096)
	out := r.newSource(1, r.engine[1], 2, 4096)
	in.start()
	list := in.room(0, 10)
	r.want("chain", list.Chain(in.room(10, 10)), nil)
	twice := in.room(100, 10)
	first, err := in.AllocPostRecv(twice)
	r.want("alloc", err, nil)
	r.want("post", first.Submit(), nil)
	for name, b := range map[string]*mem.Buf{
		"memory of another map": other.room(0, 10),
		"a list":                list,
		"a buf without room":    in.data(0, 10),
		"a buf in flight":       twice,
	} {
		task, err := in.AllocPostRecv(b)
		r.want("alloc", err, nil)
		r.want("try "+name, task.TrySubmit(), core.ErrInvalidValue)
		before := len(in.failed)
		if b == twice {
			_, err = b.Ref() // the callback drops one
			r.want("ref", err, nil)
		}
		r.want("post "+name, task.Submit(), nil)
		r.until("failed", func() bool { return len(in.failed) > before })
		if got := in.failed[before]; got != core.ErrInvalidValue {
			t.Errorf("%s: %v, want %v", name, got, core.ErrInvalidValue)
		}
	}
	done := false
	in.onRecv = func(t *PostRecv) { done = true; in.drop(t) }
	r.want("submit", out.task(0, 10, "", in.ID()).Submit(), nil)
	r.until("the right one arrives", func() bool { return done })
}

// Identifiers are never 0 or 0xffff, unique per side, and there are so many
// and no more.
func TestSetUpCodesOfTheFastPath(t *testing.T) {
	r := newFastRig(t)
	_, err := NewProducer(nil)
	r.want("producer without a connection", err, core.ErrInvalidValue)
	_, err = NewConsumer(nil, nil)
	r.want("consumer without a connection", err, core.ErrInvalidValue)
	_, err = NewConsumer(r.conn[0], nil)
	r.want("consumer without a map", err, core.ErrInvalidValue)
	local, err := mem.NewMap()
	r.want("map", err, nil)
	r.want("range", local.SetRange(make([]byte, 4096)), nil)
	_, err = NewConsumer(r.conn[0], local)
	r.want("consumer without the right", err, core.ErrNotPermitted)
	r.want("access", local.SetAccess(mem.PCIReadWrite), nil)
	r.want("start the map", local.Start(), nil)
	c, err := NewConsumer(r.conn[0], local)
	r.want("consumer", err, nil)
	r.want("start without an engine", c.Start(), core.ErrNotConnected)
	r.want("connect", r.engine[0].Connect(&c.Context), nil)
	r.want("start without tasks", c.Start(), core.ErrInitialization)
	r.want("configure", c.ConfigurePostRecv(func(*PostRecv) {}, func(*PostRecv) {}, maxFastTasks+1), core.ErrInvalidValue)
	r.want("configure", c.ConfigurePostRecv(func(*PostRecv) {}, func(*PostRecv) {}, 1), nil)
	r.want("immediate data", c.SetImmDataLen(maxImmData+1), core.ErrInvalidValue)
	r.want("start with memory of its own", c.Start(), core.ErrNotSupported)
	r.want("destroy", c.Destroy(), nil)

	seen := map[uint16]bool{0: true, 0xffff: true}
	var all []*Producer
	for range maxSeats {
		p, err := NewProducer(r.conn[0])
		r.want("producer", err, nil)
		if seen[p.ID()] {
			t.Errorf("identifier %d", p.ID())
		}
		seen[p.ID()] = true
		all = append(all, p)
	}
	_, err = NewProducer(r.conn[0])
	r.want("one producer too many", err, core.ErrNoMemory)
	r.want("disconnect with producers", r.server.Disconnect(r.conn[0]), core.ErrInUse)
	for _, p := range all {
		r.want("destroy", p.Destroy(), nil)
	}
}
