package comch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/shmq"
)

// consumers lets a server that is not started note what it hears of consumers.
func (x *serverEnd) consumers() *[]string {
	heard := new([]string)
	x.want("consumer functions", x.SetConsumerFuncs(
		func(_ *Connection, id uint16) { *heard = append(*heard, fmt.Sprint("new ", id)) },
		func(_ *Connection, id uint16) { *heard = append(*heard, fmt.Sprint("expired ", id)) }), nil)
	return heard
}

// tells sends a notice about a consumer, and waits for the answer.
func (i *intruder) tells(kind noticeKind, id uint16, fds ...int) noticeKind {
	i.Helper()
	o := offer{id: id}
	if kind == noticeNew {
		o = offer{id: id, queue: uint64(shmq.QueueSize(4)), memory: 4096, receives: 4}
	}
	b := (&notice{kind, o}).encode()
	i.want("tell", i.conn.Send(b[:], fds...), nil)
	var p [64]byte
	n, more, err := i.conn.Recv(p[:])
	i.want("answer", err, nil)
	m, ok := parseNotice(p[:n], len(more))
	if !ok || m.id != id {
		i.Fatalf("got %x about consumer %d", p[:n], id)
	}
	return m.kind
}

func TestConsumersOfThePeerAreReported(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	heard := s.consumers()
	r.want("start", s.Start(), nil)
	i := r.intruder(s)
	fds := []int{r.pages(shmq.QueueSize(4), true, false).FD(), r.pages(4096, true, false).FD()}

	for id := range uint16(2) {
		if got := i.tells(noticeNew, id+1, fds...); got != noticeAck {
			t.Errorf("got %d for a new consumer, want %d", got, noticeAck)
		}
	}
	// One that is gone before anybody looked is no news.
	if got := i.tells(noticeGone, 1); got != noticeLeft {
		t.Errorf("got %d for one that is gone, want %d", got, noticeLeft)
	}
	r.until("new", func() bool { return slices.Equal(*heard, []string{"new 2"}) })
	if s.link.remote(2) == nil || s.link.remote(1) != nil {
		t.Errorf("the table has %d consumers", len(s.link.table()))
	}
	maps := mappings(t)
	i.tells(noticeGone, 2)
	r.until("expired", func() bool { return slices.Equal(*heard, []string{"new 2", "expired 2"}) })
	if now := mappings(t); now != maps-2 {
		t.Errorf("%d mappings are left of %d, want 2 fewer", now, maps)
	}
	i.tells(noticeNew, 3, fds...)
	r.until("new", func() bool { return len(*heard) == 3 })
	_ = i.conn.Close()
	r.until("lost", func() bool { return s.link == nil })
	if want := []string{"new 2", "expired 2", "new 3", "expired 3"}; !slices.Equal(*heard, want) {
		t.Errorf("heard %v, want %v", *heard, want)
	}
	s.shut()
}

func TestAConsumerTooManyBreaksTheProtocol(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	r.want("start", s.Start(), nil)
	i := r.intruder(s)
	n := s.link
	fds := []int{r.pages(shmq.QueueSize(4), true, false).FD(), r.pages(4096, true, false).FD()}
	for id := range uint16(maxSeats) {
		i.tells(noticeNew, id+1, fds...)
	}
	o := offer{id: maxSeats + 1, queue: uint64(shmq.QueueSize(4)), memory: 4096, receives: 4}
	b := (&notice{noticeNew, o}).encode()
	r.want("one more", i.conn.Send(b[:], fds...), nil)
	r.want("why", i.out(s, n), core.ErrConnectionAborted)
	r.until("nothing mapped", func() bool { return len(n.table()) == 0 })
	s.shut()
}

func TestSeatsAreNumberedAndLimited(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(1, 1)
	n := c.link
	var seats []*seat
	n.numbers[seatProducer] = 0xfffe - 10 // so that it goes around
	for range maxSeats {
		s, err := n.join(&c.control.Context, seatProducer)
		r.want("join", err, nil)
		if s.id == 0 || s.id == 0xffff || slices.ContainsFunc(seats, func(o *seat) bool { return o.id == s.id }) {
			t.Errorf("got number %d after %d others", s.id, len(seats))
		}
		seats = append(seats, s)
	}
	_, err := n.join(&c.control.Context, seatProducer)
	r.want("one more", err, core.ErrNoMemory)
	k, err := n.join(&c.control.Context, seatConsumer)
	r.want("of the other kind", err, nil)
	_ = c.Stop()
	r.until("idle", func() bool { return c.State() == core.Idle })
	r.want("destroy with producers", c.Destroy(), core.ErrInUse)
	_, err = n.join(&c.control.Context, seatProducer)
	r.want("on a connection that is over", err, core.ErrBadState)
	k.leave()
	before := mappings(t)
	for _, s := range seats {
		s.leave()
	}
	r.until("the segment is given back", func() bool { return mappings(t) < before })
	r.want("destroy", c.Destroy(), nil)
	s.shut()
}

// TestAFullSocketEndsTheConnection: an engine never waits for a peer that does
// not read what it is told.
func TestAFullSocketEndsTheConnection(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 4)
	r.want("start", s.Start(), nil)
	r.intruder(s)
	n := s.link
	start := time.Now()
	for n.withdraw(1) == nil && time.Since(start) < answerTime {
	}
	r.until("given up", func() bool { return s.link == nil })
	r.want("why", n.Err(), core.ErrConnectionReset)
	s.shut()
}
