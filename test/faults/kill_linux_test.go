package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A pair is a command that has two sides, and how it is killed.
type pair struct {
	name  string
	kills int
	// sides returns the command lines of the DPU and the host, which run for
	// longer than the test or, if brief, end soon and well.
	sides func(dir string, brief bool) (dpu, host []string)
	// stale is how many names a killed side may leave.
	stale [2]int
	check func(dir string) error
}

var pairs = []pair{
	{name: "secure-channel", kills: 200, stale: [2]int{1, 0}, sides: func(_ string, brief bool) (dpu, host []string) {
		n := "4000000000"
		if brief {
			n = "2000"
		}
		args := []string{"secure-channel", "--wait", wait(brief), "-s", "1000", "-n", n, "--side"}
		return append(slices.Clone(args), "dpu"), append(slices.Clone(args), "host")
	}},
	{name: "dma-copy", kills: 40, stale: [2]int{1, 1}, sides: func(dir string, brief bool) (dpu, host []string) {
		from := "large"
		if brief {
			from = "small"
		}
		args := []string{"dma-copy", "--wait", wait(brief), "--side"}
		return append(slices.Clone(args), "dpu", "--overwrite", "-f", filepath.Join(dir, "to")),
			append(slices.Clone(args), "host", "-f", filepath.Join(dir, from))
	}, check: func(dir string) error {
		got, err := os.ReadFile(filepath.Join(dir, "to"))
		if want, err2 := os.ReadFile(filepath.Join(dir, "small")); err != nil || err2 != nil || !slices.Equal(got, want) {
			return fmt.Errorf("the copy differs: %w", errors.Join(err, err2))
		}
		return nil
	}},
}

// wait is how long a side waits for the other one.
func wait(brief bool) string {
	if brief {
		return "20s"
	}
	return "1s"
}

// plausible is what a survivor may give as its reason: the other side never came, was
// killed in the handshake, or later, or while its memory was being imported.
var plausible = regexp.MustCompile(`nobody came to the (host|dpu) side|connect to server .*|the other side ended before .*|import the window of the host: .*`)

// TestKilledAtAnyMoment kills either side, by turns, at a random moment: before
// the sides meet, while they do, and in the middle of it. The other side ends
// at once, with an error, and a new pair finds the name free.
func TestKilledAtAnyMoment(t *testing.T) {
	for i, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			rounds := p.kills * *long
			if testing.Short() {
				rounds = p.kills / 10
			}
			before := shared()
			var wg sync.WaitGroup
			var reasons sync.Map
			var kills atomic.Int64
			for worker := range 6 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(*seed, uint64(i*10+worker)))
					dir := workshop(t)
					for round := 0; kills.Add(1) <= int64(rounds) && !t.Failed(); round++ {
						p.round(t, dir, rng, round, &reasons)
					}
				})
			}
			wg.Wait()
			reasons.Range(func(reason, times any) bool {
				t.Logf("%4d times: %s", times.(*atomic.Int64).Load(), reason)
				return true
			})
			if n := alive(program); n > 0 {
				t.Errorf("%d processes are left", n)
			}
			if !eventually(10*time.Second, func() bool { return shared() < before+64<<20 }) {
				t.Errorf("the system has %d MiB more in shared memory than before", (shared()-before)>>20)
			}
		})
	}
}

// workshop makes a folder with the files that are copied, and with room for the
// runtime directory.
func workshop(t testing.TB) string {
	dir := t.TempDir()
	b := make([]byte, 3<<20)
	for i := range b {
		b[i] = byte(i * i >> 8)
	}
	err := os.WriteFile(filepath.Join(dir, "small"), b[:300_001], 0o600)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "large"), b, 0o600)
	}
	if err == nil {
		err = os.Truncate(filepath.Join(dir, "large"), 8<<30) // far from its end when the time comes
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// round kills one side of a pair.
func (p *pair) round(t testing.TB, dir string, rng *rand.Rand, round int, reasons *sync.Map) {
	run := filepath.Join(dir, "run")
	dpu, host := p.sides(dir, false)
	sides := []*process{gantry(t, run, dpu...), gantry(t, run, host...)}
	// One round in six is over before the sides have met, or while they do.
	delay := time.Duration(rng.IntN(60_000)) * time.Microsecond
	if rng.IntN(6) > 0 {
		delay /= 2
		eventually(time.Second, func() bool { return sides[0].mappings() > 1 && sides[1].mappings() > 1 })
	}
	<-time.After(delay)
	victim := (round + round/2) % 2
	sides[victim].kill()
	<-sides[victim].ended
	survivor := sides[1-victim]
	survivor.ends(1, 6*time.Second)
	reason := plausible.FindString(survivor.said())
	if reason == "" {
		t.Errorf("the other side says only: %s", survivor.said())
	}
	n, _ := reasons.LoadOrStore(reason, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	wantClean(t, run, p.stale[victim])
	if t.Failed() {
		t.Logf("side %d was killed after %v in round %d", victim, delay, round)
	}
	if round%4 == 0 {
		p.again(t, dir)
	}
}

// again runs a new pair, from the beginning to the end.
func (p *pair) again(t testing.TB, dir string) {
	run := filepath.Join(dir, "run")
	dpu, host := p.sides(dir, true)
	d, h := gantry(t, run, dpu...), gantry(t, run, host...)
	d.ends(0, 20*time.Second)
	h.ends(0, 20*time.Second)
	wantClean(t, run, 0)
	if p.check != nil && !t.Failed() {
		if err := p.check(dir); err != nil {
			t.Error(err)
		}
	}
}

// TestASyncEventPeerIsKilled while the two processes of the samples take turns,
// or before. The other one may have been through by then.
func TestASyncEventPeerIsKilled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seed, 3))
	dir := filepath.Join(t.TempDir(), "run")
	start := func(wait string) []*process {
		remote := gantry(t, dir, "sample", "sync_event_remote_pci", "-wait", wait)
		eventually(10*time.Second, remote.listens)
		return []*process{remote, gantry(t, dir, "sample", "sync_event_local_pci", "-wait", wait)}
	}
	for round := range 12 * *long {
		p := start("1s") // after which one that is alone gives up
		delay := time.Duration(rng.IntN(15_000)) * time.Microsecond
		<-time.After(delay)
		victim := round % 2
		p[victim].kill()
		<-p[victim].ended
		survivor := p[1-victim]
		err := survivor.within(6 * time.Second)
		if err == nil && survivor.verdict(0) != nil {
			err = survivor.verdict(1)
		}
		if err != nil {
			t.Errorf("side %d was killed after %v: %v", victim, delay, err)
		}
		if round%4 == 3 {
			for _, p := range start("20s") { // a machine with much to do may take a second to start a program
				p.ends(0, 30*time.Second)
			}
			wantClean(t, dir, 0)
		}
	}
}
