package nic

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
)

// A driver that has looked at what there is for the last time, and still holds
// the circle, sees nothing of what is posted then, and wakes nobody. Whoever
// falls asleep meanwhile has to look for himself.
func TestASleeperLooksAfterTheDriver(t *testing.T) {
	b := newBench(t)
	ch, err := b.d.NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := b.d.NewCQ(16, ch)
	if err != nil {
		t.Fatal(err)
	}
	q, err := b.d.NewQP(QPConfig{
		PD: b.pd, Transport: roce.RC, SendCQ: cq, RecvCQ: b.cq, SendDepth: 16, RecvDepth: 16, SendSGE: 1, RecvSGE: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	q.ToInit()
	q.ToRTR(qp.ResponderConfig{DestQPN: 0x77, MTU: roce.MTU1024}, AddressVector{IP: there.IP})
	q.ToRTS(qp.SenderConfig{DestQPN: 0x77, MTU: roce.MTU1024})
	cq.Arm(false)

	b.d.circle.mu.Lock() // the driver
	sq, mu := q.SendQueue()
	mu.Lock()
	sq.Reserve().Op = qp.OpLocalInv // completes without a peer, in error
	sq.Publish()
	mu.Unlock()
	q.Ring()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got := make(chan error)
	go func() {
		_, err := ch.Get(ctx)
		got <- err
	}()
	<-time.After(20 * time.Millisecond) // it falls asleep, if it does not wait for the driver
	b.d.circle.mu.Unlock()
	if err := <-got; err != nil {
		t.Errorf("got error %v instead of the event", err)
	}
	cq.Ack(1)
}

// A wait that ends by itself may have a context that is done just then. Its
// interrupt is not for the next wait.
func TestALateInterruptDoesNotEndTheNextWait(t *testing.T) {
	b := newBench(t)
	ch, err := b.d.NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.FD(); err != nil {
		t.Skip(err)
	}
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		undo := ch.interruptWith(ctx)
		cancel()
		undo()
		runtime.Gosched() // a late interrupt comes now
		ch.set.Signal()
		if err := ch.set.Wait(); err != nil {
			t.Fatalf("got error %v from a wait that nobody interrupts", err)
		}
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
}
