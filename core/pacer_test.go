package core

import (
	"testing"
	"time"
)

// lull lets a pacer wait for something that happens every so often, until d is
// over, and returns how it waited at first and at the end. As in life, a nap
// takes 50 microseconds longer than asked for.
func lull(p *pacer, now *time.Time, d, every time.Duration, pollers int32) (first, last wait) {
	begin := *now
	for i := 0; ; i++ {
		last = p.idle(*now, pollers)
		if i == 0 {
			first = last
		}
		*now = now.Add(map[wait]time.Duration{
			spin: time.Microsecond, nap: p.nap + 50*time.Microsecond, block: d}[last])
		if now.Sub(begin) >= d {
			break
		}
	}
	for range max(1, now.Sub(begin)/every) {
		p.busy()
	}
	return first, last
}

func TestPacerFollowsTheTraffic(t *testing.T) {
	for _, c := range []struct {
		name        string
		every       time.Duration
		pollers     int32
		first, last wait
	}{
		{"200,000 a second", 5 * time.Microsecond, 1, spin, spin},
		{"30,000 a second", 33 * time.Microsecond, 2, spin, spin},
		{"5,000 a second", 200 * time.Microsecond, 1, nap, nap},
		{"1,000 a second", time.Millisecond, 1, block, block},
		{"1 a second", time.Second, 1, block, block},
		{"more loops than CPUs", 5 * time.Microsecond, 3, block, block},
	} {
		p, now := pacer{cpus: 2}, time.Unix(1, 0)
		for range 200 { // get used to it
			lull(&p, &now, c.every, c.every, c.pollers)
		}
		first, last := lull(&p, &now, c.every, c.every, c.pollers)
		if first != c.first || last != c.last {
			t.Errorf("%s: first %d then %d, want %d then %d", c.name, first, last, c.first, c.last)
		}
	}
}

// A loop that naps finds several events at once, and must not take its own nap
// for the pace of the traffic.
func TestPacerDoesNotFollowItsOwnNaps(t *testing.T) {
	p, now := pacer{cpus: 2, expected: 200 * time.Microsecond}, time.Unix(1, 0)
	for range 200 {
		lull(&p, &now, 5*time.Microsecond, 5*time.Microsecond, 1)
	}
	if first, _ := lull(&p, &now, 5*time.Microsecond, 5*time.Microsecond, 1); first != spin {
		t.Errorf("200,000 events a second: %d, want to spin", first)
	}
}

func TestPacerBacksOffInAPauseItDidNotExpect(t *testing.T) {
	p, now := pacer{cpus: 2}, time.Unix(1, 0)
	for range 100 {
		lull(&p, &now, 5*time.Microsecond, 5*time.Microsecond, 1)
	}
	first, last := lull(&p, &now, 50*time.Millisecond, 50*time.Millisecond, 1)
	if first != spin || last != block {
		t.Errorf("first %d then %d, want to spin, then to block", first, last)
	}
	// In a pause that is expected to be short, the naps come after the spinning.
	p.idle(now, 1)
	p.expected = 0
	var naps []time.Duration
	for ; p.idle(now, 1) != block; now = now.Add(time.Microsecond) {
		if p.nap > 0 {
			naps = append(naps, p.nap)
		}
	}
	if len(naps) != 5 || naps[0] != shortestNap || naps[4] != longestNap {
		t.Errorf("naps %v, want five from 10µs to 100µs", naps)
	}
}
