package comch

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// An intruder is a client that has done the handshake, and then does what it
// likes: it has no attendant and no engine.
type intruder struct {
	*rig
	*Connection
	conn *ipc.Conn
}

func (r *rig) intruder(s *serverEnd) *intruder {
	r.Helper()
	k := &control{maxMessage: 100, recvQueue: 10, answerTime: answerTime}
	c := newConnection(k)
	c.client = &Client{}
	conn := r.dial(s.name)
	r.want("handshake", c.introduce(conn), nil)
	n := len(s.events)
	r.until("come in", func() bool { return len(s.events) > n })
	i := &intruder{r, c, conn}
	r.Cleanup(func() {
		_ = conn.Close()
		_ = c.bell.Close()
		_ = c.segment.Free()
	})
	return i
}

// out waits until the server has turned the intruder out, and says why.
func (i *intruder) out(s *serverEnd, n *Connection) error {
	i.Helper()
	i.until("turned out", func() bool { return s.events[len(s.events)-1] == "lost" })
	return n.Err()
}

func TestNoticesThatBreakTheProtocol(t *testing.T) {
	consumer := offer{id: 7, queue: 4096, memory: 4096, receives: 1}
	encode := func(k noticeKind, o offer) []byte { b := (&notice{k, o}).encode(); return b[:] }
	for what, do := range map[string]func(i *intruder, fd int){
		"garbage":              func(i *intruder, fd int) { _ = i.conn.Send([]byte("garbage")) },
		"too long":             func(i *intruder, fd int) { _ = i.conn.Send(make([]byte, noticeLen+1)) },
		"kind 0":               func(i *intruder, fd int) { _ = i.conn.Send(make([]byte, noticeLen)) },
		"kind 7":               func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeBye+1, consumer)) },
		"no descriptors":       func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeNew, consumer)) },
		"one descriptor":       func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeNew, consumer), fd) },
		"descriptors for gone": func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeGone, consumer), fd, fd) },
		"number 0":             func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeNew, offer{}), fd, fd) },
		"number 0xffff":        func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeNew, offer{id: 0xffff}), fd, fd) },
		"an unknown one goes":  func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeGone, consumer)) },
		"an answer to nothing": func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeAck, consumer)) },
		"a leave of nobody":    func(i *intruder, fd int) { _ = i.conn.Send(encode(noticeLeft, consumer)) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			s := r.server(r.engine(), t.Name(), 4)
			r.want("start", s.Start(), nil)
			before := descriptors(t)
			i := r.intruder(s)
			n := s.link
			do(i, r.pages(4096, true, false).FD())
			r.want("why", i.out(s, n), core.ErrConnectionAborted)
			r.until("descriptors closed", func() bool { runtime.Gosched(); return descriptors(t) <= before+r.held+3 })
			s.shut()
		})
	}
}

func TestConsumersThatCannotBeMappedAreRefused(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	s.control.answerTime = 100 * time.Millisecond
	r.want("start", s.Start(), nil)
	i := r.intruder(s)
	good := r.pages(1<<16, true, false).FD()
	unsealed, readOnly := r.pages(1<<16, false, false).FD(), r.pages(1<<16, true, true).FD()
	before := descriptors(t)
	small := uint64(shmq.QueueSize(4)) // what belongs to 4 receives, so that only the descriptors are wrong
	for what, x := range map[string]struct {
		o             offer
		queue, memory int
	}{
		"unsealed memory":  {offer{queue: small, memory: 1 << 16, receives: 4}, good, unsealed},
		"unsealed queue":   {offer{queue: small, memory: 1 << 16, receives: 4}, unsealed, good},
		"read-only memory": {offer{queue: small, memory: 1 << 16, receives: 4}, good, readOnly},
		"memory too small": {offer{queue: small, memory: 1 << 30, receives: 4}, good, good},
		"queue too small":  {offer{queue: uint64(shmq.QueueSize(maxReceives)), memory: 1 << 16, receives: maxReceives}, good, good},
		"endless memory":   {offer{queue: small, memory: 1 << 63, receives: 4}, good, good},
		"no queue":         {offer{memory: 1 << 16, receives: 4}, good, good},
		"standard input":   {offer{queue: small, memory: 1 << 16, receives: 4}, 0, 0},
	} {
		x.o.id = 9
		b := (&notice{noticeNew, x.o}).encode()
		r.want("offer", i.conn.Send(b[:], x.queue, x.memory), nil)
		var answer [64]byte
		n, fds, err := i.conn.Recv(answer[:])
		r.want("answer", err, nil)
		if m, ok := parseNotice(answer[:n], len(fds)); !ok || m.kind != noticeNak || m.id != 9 {
			t.Errorf("%s: got answer %+v", what, m)
		}
	}
	r.same(before)
	if s.link == nil {
		t.Errorf("the server was told %v", s.events)
	}
	s.shut()
}

// TestAPeerThatScribblesIsTurnedOut writes garbage into every word that the
// peer can reach, while messages go to and fro. Every second peer aims at the
// two words that the server believes most: whoever leaves a count there that
// cannot be is turned out, and in the meantime a bystander is served.
func TestAPeerThatScribblesIsTurnedOut(t *testing.T) {
	const rounds = 200
	r := newRig(t)
	s, c := r.pair(2, 16)
	random := rand.New(rand.NewPCG(1, 2))
	half := newLayout(100, defaultRecvQueue, 10).second() / 8
	harmful := 0
	for round := range rounds {
		i := r.intruder(s)
		n := s.link
		words, ok := sys.Words(i.segment.Bytes())
		if !ok {
			t.Fatal("the segment is not aligned")
		}
		tail, head := &words[0], &words[half+16] // written to the server, and read by the intruder
		for range 20 {
			w := scribbled(random, words, half)
			if round%2 == 0 {
				w = [...]*atomic.Uint64{tail, head}[random.IntN(2)]
			}
			v := random.Uint64()
			if random.IntN(2) == 0 {
				v >>= random.IntN(64)
			}
			w.Store(v)
			if task, err := s.AllocSend(n, []byte("to the intruder")); err == nil {
				_ = task.Submit()
			}
			for range 50 {
				s.engine.Progress()
			}
		}
		r.want("honest", c.send("honest"), nil)
		r.until("served", func() bool { return slices.Contains(s.got, "honest") })
		if v := tail.Load(); v>>32 != 0 || v%8 != 0 { // it counts words, up to 1<<32 bytes
			harmful++
			r.until("turned out", n.gone)
			r.want("why", n.Err(), core.ErrConnectionAborted)
		}
		_ = i.conn.Close()
		r.until("gone", func() bool { return s.events[len(s.events)-1] == "lost" && s.Inflight() == 0 })
		s.got, s.failed, s.events = nil, nil, s.events[:0]
	}
	if harmful < rounds/3 {
		t.Errorf("%d of %d peers did harm: the garbage missed", harmful, rounds)
	}
	c.shut()
	s.shut()
}

// scribbled picks a word of a segment. The words of its streams are at the start
// of both halves.
func scribbled(random *rand.Rand, words []atomic.Uint64, half int) *atomic.Uint64 {
	w := random.IntN(128)
	if random.IntN(2) == 0 {
		w = random.IntN(len(words))
	} else if random.IntN(2) == 0 {
		w += half
	}
	return &words[w%len(words)]
}

// TestAPeerThatNeverAnswersDoesNotHoldUpAStop has an intruder that ignores the
// goodbye, and one that does not even read what is in its way.
func TestAPeerThatNeverAnswersDoesNotHoldUpAStop(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 64)
	s.control.answerTime = 50 * time.Millisecond
	r.want("start", s.Start(), nil)
	r.intruder(s)
	r.intruder(s)
	n := s.link
	for range 64 { // more than its queue takes
		r.want("send", s.send("never read"), nil)
	}
	r.want("disconnect", s.Disconnect(n), core.ErrAgain)
	r.want("stop", s.Stop(), core.ErrInProgress)
	r.settle()
	if s.State() != core.Stopping || s.sent != 10 {
		t.Errorf("the server is %v with %d sent, want it to wait for room", s.State(), s.sent)
	}
	n.Abort()
	r.until("idle", func() bool { return s.State() == core.Idle })
	r.want("why", n.Err(), core.ErrConnectionAborted)
	if len(s.failed) != 54 {
		t.Errorf("%d sends failed, want 54", len(s.failed))
	}
	s.shut()
}

// TestAPeerThatRingsAllTheTimeCostsOnlyItsRings: a doorbell that was rung
// without need is emptied after a while.
func TestAPeerThatRingsAllTheTimeCostsOnlyItsRings(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	s.control.answerTime = 100 * time.Millisecond
	r.want("start", s.Start(), nil)
	i := r.intruder(s)
	r.want("ring", i.bell.Ring(), nil)
	wakes := 0
	loud := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		r.want("arm", s.engine.RequestNotification(), nil)
		err := s.engine.Wait(ctx)
		r.want("clear", s.engine.ClearNotification(), nil)
		s.engine.Progress()
		return err == nil
	}
	for loud() {
		if wakes++; wakes > 2*patience {
			t.Fatal("the doorbell stays loud")
		}
	}
	if wakes == 0 {
		t.Error("the ring did not come")
	}
	s.shut()
}

func TestTheWatchdogHearsWhyAConnectionWasLost(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	var log bytes.Buffer
	r.want("watchdog", s.engine.SetWatchdog(slog.New(slog.NewTextHandler(&log, nil)), time.Hour), nil)
	r.want("start", s.Start(), nil)
	i := r.intruder(s)
	r.want("garbage", i.conn.Send([]byte("garbage")), nil)
	r.until("lost", func() bool { return s.link == nil })
	if !strings.Contains(log.String(), "broke the protocol") {
		t.Errorf("the log has %q", log.String())
	}
	s.shut()
}

// TestAClientThatCameAndWentIsNotLeft when the server never looked at it.
func TestAClientThatCameAndWentIsNotLeft(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	before := mappings(t)
	r.want("start", s.Start(), nil)
	k := &control{maxMessage: 100, recvQueue: 10, answerTime: answerTime}
	c := newConnection(k)
	c.client = &Client{}
	conn := r.dial(s.name)
	r.want("handshake", c.introduce(conn), nil)
	for !s.fresh.Load() {
		runtime.Gosched()
	}
	_, _, _ = conn.Close(), c.bell.Close(), c.segment.Free()
	for s.workers.Load() > 1 { // who accepts is left
		runtime.Gosched()
	}
	r.want("stop", s.Stop(), core.ErrInProgress)
	s.shut()
	if n := mappings(t); n != before || len(s.events) > 0 {
		t.Errorf("%d mappings are left of %d, the server was told %v", n, before, s.events)
	}
}

// TestThoseWhoComeAndGoKeepTheirPlace until the server has looked at them: one
// client that does it all the time cannot pile up connections.
func TestThoseWhoComeAndGoKeepTheirPlace(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	r.want("start", s.Start(), nil)
	visit := func() error {
		c := newConnection(&control{maxMessage: 100, recvQueue: 10, answerTime: answerTime})
		c.client = &Client{}
		conn := r.dial(s.name)
		err := c.introduce(conn)
		_ = conn.Close()
		if c.bell != nil {
			_, _ = c.bell.Close(), c.segment.Free()
		}
		return err
	}
	for range maxClients {
		r.want("come in", visit(), nil)
	}
	for s.workers.Load() > 1 { // all of them have gone
		runtime.Gosched()
	}
	r.want("one too many", visit(), core.ErrFull)
	r.until("all are told of", func() bool { return len(s.events) == 2*maxClients })
	r.want("come in again", visit(), nil)
	r.until("told of", func() bool { return len(s.events) == 2*maxClients+2 })
	s.shut()
}
