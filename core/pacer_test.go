package core

import (
	"testing"
	"time"
)

// pause lets a pacer go through a pause of length d, and returns how it waited:
// what came first, and what it was doing at the end.
func pause(p *pacer, now *time.Time, d time.Duration, pollers int32) (first, last wait) {
	end := now.Add(d)
	for i := 0; ; i++ {
		last = p.idle(*now, pollers)
		if i == 0 {
			first = last
		}
		step := map[wait]time.Duration{spin: time.Microsecond, nap: p.nap, block: d}[last]
		if *now = now.Add(step); last != spin {
			p.woke(*now)
		}
		if !now.Before(end) {
			break
		}
	}
	p.busy()
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
			pause(&p, &now, c.every, c.pollers)
		}
		first, last := pause(&p, &now, c.every, c.pollers)
		if first != c.first || last != c.last {
			t.Errorf("%s: first %d then %d, want %d then %d", c.name, first, last, c.first, c.last)
		}
	}
}

func TestPacerBacksOffInAPauseItDidNotExpect(t *testing.T) {
	p, now := pacer{cpus: 2}, time.Unix(1, 0)
	for range 100 {
		pause(&p, &now, 5*time.Microsecond, 1)
	}
	first, last := pause(&p, &now, 50*time.Millisecond, 1)
	if first != spin || last != block {
		t.Errorf("first %d then %d, want to spin, then to block", first, last)
	}
	var naps []time.Duration
	for now = now.Add(time.Hour); ; now = now.Add(time.Microsecond) {
		if p.expected = 0; p.idle(now, 1) == block {
			break
		}
		if p.nap > 0 {
			naps = append(naps, p.nap)
		}
	}
	if len(naps) != 5 || naps[0] != shortestNap || naps[4] != longestNap {
		t.Errorf("naps %v, want five from 10µs to 100µs", naps)
	}
}
