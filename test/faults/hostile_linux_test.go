package faults

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// everything is all attacks at once but for the one that is found out at once.
const everything = "words entries bell pages"

// rogue starts a hostile process.
func rogue(t testing.TB, dir, name, side, attack string, last time.Duration, number int) *process {
	p := play(t, dir, "hostile", attackVariable+"="+attack, nameVariable+"="+name, sideVariable+"="+side,
		fmt.Sprintf("%s=%v", timeVariable, last), fmt.Sprintf("%s=%d", seedVariable, *seed+uint64(number)))
	p.name += " with " + attack
	return p
}

// line returns the rest of the last line that the process has printed so far
// and that starts so.
func (p *process) line(prefix string) (rest string) {
	for _, line := range strings.Split(p.printed(), "\n") {
		if r, ok := strings.CutPrefix(line, prefix+" "); ok {
			rest = r
		}
	}
	return rest
}

// wasIn waits until a hostile process has told what came of its attacks, and
// checks that it was let in so often at least: a test whose peer never came in
// shows nothing.
func (p *process) wasIn(least int, d time.Duration) {
	p.Helper()
	visits := p.says("visits", d)
	var in, out int
	if _, err := fmt.Sscan(visits, &in, &out); err != nil || in < least {
		p.Errorf("%s: it came in %d times, want %d or more: %v", p.name, in, least, err)
	}
	p.Logf("%s: it came in %d times, and was thrown out %d times", p.name, in, out)
}

// goesOn reports whether the process prints something from now on.
func (p *process) goesOn() bool {
	for len(p.lines) > 0 {
		<-p.lines
	}
	select {
	case _, ok := <-p.lines:
		return ok
	case <-time.After(5 * time.Second):
		return false
	}
}

// TestAHostileClientHarmsNobody: while it does its worst, another client of the
// same server gets all its messages, and when it has gone the server is as it
// was: no descriptor and no mapping more, and it sleeps.
func TestAHostileClientHarmsNobody(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	server := play(t, dir, "server")
	server.says("ready", 10*time.Second)
	honest := play(t, dir, "honest")
	honest.says("sent 65", 10*time.Second)
	fds, maps := server.descriptors(), server.mappings()
	last := time.Duration(*long) * 1500 * time.Millisecond
	for i, attack := range []string{"words", "entries", "rings", "bell", "pages", "notices", everything} {
		rogue := rogue(t, dir, service, "client", attack, last, i)
		rogue.wasIn(2, last+20*time.Second)
		_ = rogue.in.Close()
		rogue.ends(0, 10*time.Second)
		if may := rogue.line("allowed"); strings.Contains(may, "truncate:") || strings.Contains(may, "grow:") {
			t.Errorf("the system lets a peer change the size of shared memory: %s", may)
		} else if may != "map[]" {
			t.Logf("%s: what the system allowed with shared memory: %s", attack, may)
		}
		select {
		case <-server.ended:
			t.Fatalf("%s: the server ended: %v\n%s", attack, server.state, server.said())
		case <-honest.ended:
			t.Fatalf("%s: the honest client ended: %v\n%s", attack, honest.state, honest.said())
		default:
		}
		if !honest.goesOn() {
			t.Fatalf("%s: the honest client gets no messages any more", attack)
		}
		// What the peers that were thrown out have sent before is still read.
		if !eventually(time.Minute, func() bool { return server.descriptors() <= fds && server.mappings() <= maps }) {
			t.Errorf("%s: the server has %d descriptors and %d mappings, and had %d and %d",
				attack, server.descriptors(), server.mappings(), fds, maps)
		}
	}
	_ = honest.in.Close()
	counts := honest.says("honest", 20*time.Second)
	honest.ends(0, 10*time.Second)
	t.Log("messages of the honest client on the fast path and the control path:", counts)
	if l := server.load(500 * time.Millisecond); l > 0.2 {
		t.Errorf("the server takes %.2f of a CPU with nothing to do", l)
	}
	_ = server.in.Close()
	server.ends(0, 20*time.Second)
	wantClean(t, dir, 0)
}

// TestAHostileClientThatIsQuietCostsNothing: what it did before it fell silent,
// and stayed, does not keep the server awake.
func TestAHostileClientThatIsQuietCostsNothing(t *testing.T) {
	for i, attack := range []string{"words", "entries", "rings", "bell", "pages", "notices"} {
		t.Run(attack, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			server := play(t, dir, "server")
			server.says("ready", 10*time.Second)
			rogue := rogue(t, dir, service, "client", attack, 500*time.Millisecond, 100+i)
			rogue.wasIn(1, 20*time.Second)
			if !eventually(10*time.Second, func() bool { return server.load(500*time.Millisecond) < 0.2 }) {
				t.Errorf("the server takes %.2f of a CPU for a silent client", server.load(time.Second))
			}
			_ = server.in.Close() // it can stop, with the client still there
			server.ends(0, 20*time.Second)
		})
	}
}

// TestACommandWithAHostilePeerEndsWell: the sides of the commands have one peer,
// so they end, with an error that says why.
func TestACommandWithAHostilePeerEndsWell(t *testing.T) {
	const last = 4 * time.Second
	for i, c := range []struct{ name, service, side, args string }{
		{"the DPU of secure-channel", "secure_channel_server", "client", "secure-channel --side dpu -n 4000000000 -s 3000"},
		{"the host of secure-channel", "secure_channel_server", "server", "secure-channel --side host -n 4000000000 -s 3000"},
		{"the DPU of dma-copy", "dma_copy_server", "client", "dma-copy --side dpu --overwrite -f to"},
		{"the host of dma-copy", "dma_copy_server", "server", "dma-copy --side host -f large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := workshop(t)
			run := filepath.Join(dir, "run")
			rogue := rogue(t, run, c.service, c.side, everything, time.Duration(*long)*last, 200+i)
			// The last peer falls silent, for which there is no limit. It leaves soon.
			time.AfterFunc(time.Duration(*long)*last+time.Second/2, func() { _ = rogue.in.Close() })
			runs, reasons := 0, map[string]int{}
			for end := time.Now().Add(time.Duration(*long) * last); time.Now().Before(end) && !t.Failed(); runs++ {
				words := strings.Fields(c.args)
				for k, w := range words {
					if w == "to" || w == "large" {
						words[k] = filepath.Join(dir, w)
					}
				}
				p := gantry(t, run, append(words, "--wait", "2s")...)
				p.ends(1, 15*time.Second)
				reasons[p.said()]++
			}
			t.Logf("%d runs, which ended for %d reasons", runs, len(reasons))
			rogue.wasIn(1, 20*time.Second)
			rogue.ends(0, 20*time.Second)
		})
	}
}
