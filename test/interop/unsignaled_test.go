//go:build linux

package interop

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/kit"
	"github.com/gantry-rdma/gantry/verbs"
)

// Of messages that Gantry sends without a completion of their own.
const (
	moderation  = 16   // one completion for so many
	sparedCount = 1024 // messages of a row
	sparedSize  = 1500 // bytes of one: two packets

	// So many are on the way at most, which is less than the quarter of the send
	// queue with which all begin to ask.
	sparedAtOnce = sendDepth/4 - moderation

	// stall is shorter than the ACK timeouts, which are over when the guest stands
	// still for longer.
	stall = 500 * time.Millisecond
)

// storm is weather in which several things happen.
var storm = kit.Weather{Loss: 0.01, Dup: 0.03, Reorder: 0.03, Seed: 7}

// unsignaledRows have Gantry send messages of which only some have a completion,
// so that the others do not ask for an acknowledgement.
func (r *rig) unsignaledRows(t *testing.T) {
	r.sparedStream(t, "", good)
	if mode == "short" {
		return
	}
	for _, b := range bad {
		r.sparedStream(t, " "+b.name, b.weather)
	}
	r.sparedPingpong(t, "", good)
	r.sparedPingpong(t, " storm", storm)
}

// sparedStream sends the messages one after another.
func (r *rig) sparedStream(t *testing.T, kind string, weather kit.Weather) {
	each(func(six, full bool) {
		name, do := "unsignaled by Gantry ", (*row).unsignaled
		if full {
			name, do = "unsignaled by Gantry, queue full, ", (*row).unsignaledFull
		}
		if mode != "short" || !six && !full {
			r.run(t, name+family(six)+kind, weather, func(x *row) { do(x, six) })
		}
	})
}

// sparedPingpong has an original answer each message. The next one goes out with
// the answer, so soon a probe comes between, and then 64 messages ask.
func (r *rig) sparedPingpong(t *testing.T, kind string, weather kit.Weather) {
	each(func(six, server bool) {
		r.run(t, fmt.Sprintf("pingpong rc %s %s unsignaled%s", role(server), family(six), kind), weather, func(x *row) {
			x.play(match{kind: "rc", server: server, six: six, iters: sparedCount,
				args: []string{"-s", strconv.Itoa(sparedSize), "-m", "1024"}, own: []string{"--cq-mod", strconv.Itoa(moderation)}})
			x.judge = x.spared(sparedCount / 100)
		})
	})
}

// unsignaled sends messages to the guest, a few at once. One of 16 has a
// completion.
func (x *row) unsignaled(six bool) {
	e := x.stream(six)
	due := 0 // completions
	for i := 1; i < sparedCount; i++ {
		tell := (i+1)%moderation == 0
		e.spare(i, tell)
		if tell {
			due++
		}
		for ; due*moderation > sparedAtOnce-moderation; due-- {
			e.wait(verbs.WCSuccess)
		}
	}
	for ; due > 0; due-- {
		e.wait(verbs.WCSuccess)
	}
	x.collected(e)
	x.judge = x.spared(sparedCount / 4) // after a probe 64 ask, and what is sent again asks
}

// unsignaledFull sends them as fast as the queue has room. The last one alone
// has a completion, so one in 16 asks from when a quarter of the queue is in use,
// which is soon.
func (x *row) unsignaledFull(six bool) {
	e := x.stream(six)
	for i := 1; i < sparedCount; i++ {
		e.spare(i, i+1 == sparedCount)
	}
	e.wait(verbs.WCSuccess)
	x.collected(e)
	x.judge = x.spared(sparedCount / 4)
}

// stream joins with a guest that collects messages, which have to be there in
// their order, and sends the first. That is waited for: until a round trip is
// known all messages ask.
func (x *row) stream(six bool) *end {
	e := x.join(plan{six: six, spared: true, steps: []string{
		fmt.Sprintf("recvs=%d,0,%d", sparedCount, sparedSize), "go",
		fmt.Sprintf("collect=%d,0,%d,60000", sparedCount, sparedSize)}})
	e.release()
	e.spare(0, true)
	e.wait(verbs.WCSuccess)
	return e
}

// spare sends the i-th message, with a completion or without.
func (e *end) spare(i int, tell bool) {
	e.x.t.Helper()
	e.fill(i*sparedSize, sparedSize, i)
	wr := e.send(i*sparedSize, sparedSize)
	if tell {
		wr.Flags = verbs.Signaled
	}
	e.postPatiently(wr)
}

// collected wants all messages to be there.
func (x *row) collected(e *end) {
	x.t.Helper()
	e.finish()
	var n int
	x.must(scanLast(e.peer.Output(), "collected ", &n))
	if n != sparedCount {
		x.t.Errorf("%d of %d messages arrived", n, sparedCount)
	}
}

// postPatiently waits for room in the queue, which no completion tells of.
func (e *end) postPatiently(wr verbs.SendWR) {
	e.x.t.Helper()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for {
		_, err := e.qp.PostSend(wr)
		if !errors.Is(err, verbs.ENOMEM) {
			e.x.must(err)
			return
		}
		select {
		case <-tick.C:
		case <-e.x.ctx.Done():
			e.x.t.Fatalf("there is no room in the queue; the guest: %s", e.peer.Output())
		}
	}
}

// spared wants that many messages of Gantry not to have asked for an
// acknowledgement, as the wire has seen them, and in good weather nothing to have
// been sent again but for probes, unless the guest stood still.
func (x *row) spared(least int) func([2]kit.Tally) {
	return func(tally [2]kit.Tally) {
		x.t.Helper()
		g, k := tally[kit.ToGuest], tally[kit.ToHost]
		spared := g.Ends - g.Asked
		x.note = fmt.Sprintf("%d of %d messages asked for nothing, the kernel answered %d times; %d probes", spared, g.Ends, k.Acks, x.ours["probe"])
		if spared < least {
			x.t.Errorf("%d of %d messages asked for no acknowledgement, want at least %d", spared, g.Ends, least)
		}
		if x.weather == good && g.Again > int(x.ours["probe"]) && g.Silence < stall {
			x.t.Errorf("Gantry sent %d packets again, %d of them probes, and the guest was never silent for more than %v",
				g.Again, x.ours["probe"], g.Silence)
		}
	}
}
