package verbs_test

import (
	"context"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// One goroutine polls once, while another one posts and falls asleep. Whatever
// the poll did not see any more is for the sleeper to find.
func TestAPollThatEndsLeavesNothingToASleeper(t *testing.T) {
	da, db := pair(t, work.NewInline())
	ch := must(da.CreateCompChannel())(t)
	s := standard()
	r := newRig(t, da, db, s)
	scq := must(da.CreateCQ(16, ch, nil))(t)
	from := must(r.a.pd.CreateQP(QPInit{Type: RC, SendCQ: scq, RecvCQ: r.a.cq, Cap: s.cap}))(t)
	to := r.b.newQP(s)
	connect(t, s, da, db, from, to)
	turn := make(chan struct{})
	go func() {
		var wc [1]WC
		for range turn {
			r.a.cq.Poll(wc[:]) // never has anything
		}
	}()
	defer close(turn)
	rounds := 20_000
	if testing.Short() {
		rounds = 2000
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var wc [1]WC
	for n := range rounds {
		scq.Arm(false)
		turn <- struct{}{}
		if _, err := from.PostSend(SendWR{Opcode: WRRDMAWrite, Flags: Signaled}); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.Get(ctx); err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		scq.Ack(1)
		if scq.Poll(wc[:]) != 1 || wc[0].Status != WCSuccess {
			t.Fatalf("round %d: no completion behind the event, or %v", n, wc[0].Status)
		}
	}
	if err := from.Destroy(); err != nil {
		t.Error(err)
	}
	if err := scq.Destroy(); err != nil {
		t.Error(err)
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
}
