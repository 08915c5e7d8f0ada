package perf

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5},
		{[]float64{1, 2, 3, 1000}, 2.5}, {[]float64{7, 7, 1, 7}, 7},
	} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v: got %v, want %v", c.of, got, c.want)
		}
	}
	v := []float64{3, 1, 2}
	if median(v); v[0] != 3 || v[1] != 1 || v[2] != 2 {
		t.Errorf("median changed its argument to %v", v)
	}
}

func TestRatioPairsWhatRanTogether(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"nothing", nil, nil, 0},
		{"one pair", []float64{6}, []float64{3}, 2},
		{"a machine that slows down", []float64{2, 20, 200}, []float64{1, 10, 100}, 2},
		{"one slice disturbed", []float64{2, 2, 900, 2, 2}, []float64{1, 1, 1, 1, 1}, 2},
		{"the medians alone would say 1", []float64{1, 2, 3}, []float64{2, 1, 6}, 0.5},
		{"no quotient", []float64{1, 4}, []float64{0, 2}, 2},
		{"an odd one out", []float64{4, 6, 1}, []float64{2, 3}, 2},
	} {
		if got := ratio(c.a, c.b); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBetterIsTheSmallerOfEachPair(t *testing.T) {
	got := better([]float64{1, 5, 3}, []float64{2, 4, 3, 0})
	if !slices.Equal(got, []float64{1, 4, 3}) {
		t.Errorf("got %v", got)
	}
}

func TestAMeasurementHasFifteenRoundsAtLeast(t *testing.T) {
	for _, c := range []struct {
		d      time.Duration
		n      int
		slice  time.Duration
		rounds int
	}{
		{2 * time.Second, 2, 20 * time.Millisecond, 50},
		{600 * time.Millisecond, 2, 20 * time.Millisecond, 15},
		{300 * time.Millisecond, 2, 10 * time.Millisecond, 15},
		{30 * time.Millisecond, 2, time.Millisecond, 15},
		{0, 6, time.Microsecond, 15},
	} {
		if slice := sliceOf(c.d, 20*time.Millisecond, c.n); slice != c.slice {
			t.Errorf("%v for %d: got slices of %v, want %v", c.d, c.n, slice, c.slice)
		}
		all := make([]*contender, c.n)
		for i := range all {
			all[i] = &contender{run: func(n int) (int, time.Duration) { return n, time.Duration(n) * 100 }}
		}
		if err := takeTurns(t.Context(), c.d, 20*time.Millisecond, nil, all...); err != nil {
			t.Fatal(err)
		}
		if n := len(all[0].ns); n != c.rounds {
			t.Errorf("%v for %d: got %d rounds, want %d", c.d, c.n, n, c.rounds)
		}
	}
}

// A measurement lasts as long as was asked for, although the machine was slow, or
// fast, while the sizes of the slices were found.
func TestAMeasurementLastsAsLongAsItIsTo(t *testing.T) {
	for _, before := range []float64{0.02, 1, 50} { // how much slower it was
		const d, slice = time.Second, 20 * time.Millisecond
		slow, spent, last := before, time.Duration(0), 0.0
		c := &contender{
			run: func(n int) (int, time.Duration) {
				took := time.Duration(1000 * slow * float64(n))
				spent += took
				return n, took
			},
			warm: func() { slow, spent = 1, 0 },
		}
		monotonic := func(part float64) {
			if part < last || part > 1 {
				t.Errorf("%v times slower: the part done went from %v to %v", before, last, part)
			}
			last = part
		}
		if err := takeTurns(t.Context(), d, slice, monotonic, c); err != nil {
			t.Fatal(err)
		}
		if most := max(d+slice, time.Duration(fewestRounds*float64(slice)/before)); spent < d || spent > most {
			t.Errorf("%v times slower at first: it took %v, want %v to %v", before, spent, d, most)
		}
		if n := len(c.ns); n < fewestRounds || n > 120 {
			t.Errorf("%v times slower at first: %d rounds", before, n)
		}
		if last != 1 {
			t.Errorf("%v times slower at first: watched until %v, want 1", before, last)
		}
	}
}

// A drifting contender costs ns per operation on a machine that takes longer
// with every slice. It notes its turns.
func drifting(ns float64, slowness *float64, turns *[]float64) *contender {
	return &contender{run: func(n int) (int, time.Duration) {
		*slowness *= 1.05
		*turns = append(*turns, ns)
		return n, time.Duration(ns * *slowness * float64(n))
	}}
}

func TestTurnsCancelDrift(t *testing.T) {
	slowness, turns := 1.0, []float64(nil)
	a, b := drifting(3000, &slowness, &turns), drifting(1000, &slowness, &turns)
	last := 0.0
	err := takeTurns(t.Context(), time.Second, 20*time.Millisecond, func(part float64) { last = part }, a, b)
	if err != nil {
		t.Fatal(err)
	}
	if last != 1 {
		t.Errorf("watched until %v, want 1", last)
	}
	n := len(a.ns)
	if n < fewestRounds || len(b.ns) != n {
		t.Fatalf("%d and %d slices, want the same, %d or more", n, len(b.ns), fewestRounds)
	}
	for i, turn := range turns[len(turns)-2*n:] {
		if want := []float64{3000, 1000}[i%2]; turn != want {
			t.Fatalf("turn %d was of %v, want %v", i, turn, want)
		}
	}
	if first, last := a.ns[0], a.ns[n-1]; last < 3*first {
		t.Errorf("the machine slowed from %v to %v: too little to test anything", first, last)
	}
	if got, want := ratio(a.ns, b.ns), 3/1.05; math.Abs(got-want) > 0.01 {
		t.Errorf("ratio %v, want %v", got, want)
	}
}

func TestCalibrateFindsTheSizeOfASlice(t *testing.T) {
	for _, ns := range []float64{0.01, 1, 150, 1e6, 1e9} {
		c := &contender{run: func(n int) (int, time.Duration) { return n, time.Duration(ns * float64(n)) }}
		c.calibrate(20 * time.Millisecond)
		want := max(1, 20e6/max(ns, 0.1))
		if got := float64(c.n); math.Abs(got-want) > 0.01*want {
			t.Errorf("%v ns: %v operations, want %v", ns, got, want)
		}
	}
}

func TestTurnsEndWithTheirContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	runs := 0
	c := &contender{run: func(n int) (int, time.Duration) {
		if runs++; runs == 20 {
			cancel(why)
		}
		return n, time.Duration(n) * time.Microsecond
	}}
	if err := takeTurns(ctx, time.Hour, time.Millisecond, nil, c); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if runs != 20 {
		t.Errorf("%d runs, want 20", runs)
	}
}

func TestPartsOfAWatch(t *testing.T) {
	var got []float64
	w := Watch(func(part float64) { got = append(got, part) })
	p := w.Part(1, 4, 6) // the middle four of six
	p(0)
	p(0.5)
	p.step(2, 2)
	for i, want := range []float64{1. / 6, 3. / 6, 5. / 6} {
		if math.Abs(got[i]-want) > 1e-9 {
			t.Errorf("got %v, want %v", got[i], want)
		}
	}
	none := Watch(nil).Part(1, 2, 3)
	none.step(1, 2) // tells nobody
}
