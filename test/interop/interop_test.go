//go:build linux

package interop

import (
	"fmt"
	"testing"

	"github.com/gantry-rdma/gantry/test/interop/kit"
	"github.com/gantry-rdma/gantry/verbs"
)

func TestGantryAndTheKernelUnderstandEachOther(t *testing.T) {
	if mode == "" {
		t.Skip("GANTRY_INTEROP is not set: see README.md")
	}
	for _, k := range wantedKernels() {
		t.Run(k, func(t *testing.T) {
			r := newRig(t, k, 4200)
			r.fineRows(t)
			r.badRows(t)
			r.streamRows(t)
			r.operationRows(t)
			r.unsignaledRows(t)
			r.waitRows(t)
			r.errorRows(t)
			r.cmRows(t)
			r.connRows(t)
			r.udaddyRows(t)
			r.rpingRows(t)
		})
	}
	summarise()
	if *reportFlag != "" {
		report(t, *reportFlag)
	}
}

// good is weather in which nothing happens.
var good = kit.Weather{}

// bad are the kinds of weather with which the matrix is run.
var bad = []struct {
	name    string
	weather kit.Weather
}{
	{"loss", kit.Weather{Loss: 0.02, Seed: 1}},
	{"duplication", kit.Weather{Dup: 0.1, Seed: 2}},
	{"reordering", kit.Weather{Reorder: 0.05, Seed: 3}},
	{"corruption", kit.Weather{Corrupt: 0.02, Seed: 4}},
}

// family names an IP version.
func family(six bool) string {
	if six {
		return "IPv6"
	}
	return "IPv4"
}

// role names who is client and who is server.
func role(server bool) string {
	if server {
		return "server"
	}
	return "client"
}

// each calls f for both IP versions, and for each for both roles.
func each(f func(six, second bool)) {
	for _, six := range []bool{false, true} {
		f(six, false)
		f(six, true)
	}
}

// fineRows play pingpong with the originals in good weather.
func (r *rig) fineRows(t *testing.T) {
	for _, kind := range []string{"rc", "uc", "ud"} {
		each(func(six, server bool) {
			args := []string{"-s", "4096", "-m", "1024"}
			if kind == "ud" {
				args = []string{"-s", "1024"}
			}
			r.run(t, fmt.Sprintf("pingpong %s %s %s", kind, role(server), family(six)), good, func(x *row) {
				x.play(match{kind: kind, server: server, six: six, iters: 100, args: args})
				x.onlyProbes()
			})
		})
	}
	if mode == "short" {
		return
	}
	for _, server := range []bool{false, true} {
		r.run(t, "pingpong rc "+role(server)+" MTU 4096", good, func(x *row) {
			x.play(match{kind: "rc", server: server, iters: 50, args: []string{"-s", "100000", "-m", "4096"}})
		})
		r.run(t, "pingpong rc "+role(server)+" MTU 256", good, func(x *row) {
			x.play(match{kind: "rc", server: server, iters: 20, args: []string{"-s", "65537", "-m", "256"}})
		})
		r.run(t, "pingpong rc "+role(server)+" events", good, func(x *row) {
			x.play(match{kind: "rc", server: server, iters: 100, args: []string{"-s", "1", "-e"}})
		})
		r.run(t, "pingpong ud "+role(server)+" events", good, func(x *row) {
			x.play(match{kind: "ud", server: server, iters: 100, args: []string{"-s", "4000", "-e"}})
		})
	}
}

// onlyProbes wants no packet to have been sent again in vain: what Gantry sends
// again in good weather are the single packets with which it asks for an answer
// that is late, as answers of an emulated guest are.
func (x *row) onlyProbes() {
	x.after(func() {
		if n := x.ours["timeout"]; n > 0 {
			x.note = fmt.Sprintf("%d timeouts in good weather", n)
		}
	})
}

// badRows play pingpong over RC, which repairs what the weather spoils.
func (r *rig) badRows(t *testing.T) {
	for _, b := range bad {
		each(func(six, server bool) {
			if mode == "short" && (six || b.weather.Loss+b.weather.Corrupt == 0) {
				return
			}
			r.run(t, fmt.Sprintf("pingpong rc %s %s %s", role(server), family(six), b.name), b.weather, func(x *row) {
				x.play(match{kind: "rc", server: server, six: six, iters: 100, args: []string{"-s", "8192", "-m", "1024"}})
			})
		})
	}
}

// streamRows send messages over services that may lose some: what arrives has
// to be whole.
func (r *rig) streamRows(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.UC, verbs.UD} {
		for _, b := range bad {
			each(func(six, second bool) {
				if mode == "short" && (six || b.weather.Loss+b.weather.Reorder == 0) {
					return
				}
				from, stream := "from Gantry", (*row).streamOut
				if second {
					from, stream = "from the kernel", (*row).streamIn
				}
				r.run(t, fmt.Sprintf("stream %s %s %s %s", nameOf(kind), from, family(six), b.name), b.weather, func(x *row) {
					stream(x, plan{kind: kind, six: six})
				})
			})
		}
	}
}

// A stream has so many messages: of three packets over UC, of one over UD.
const streamMessages = 120

func streamSize(kind verbs.QPType) int {
	if kind == verbs.UC {
		return 3000
	}
	return 1000
}

// streamOut sends messages to the guest.
func (x *row) streamOut(p plan) {
	size := streamSize(p.kind)
	p.steps = []string{fmt.Sprintf("recvs=%d,0,%d", streamMessages, size), "go", fmt.Sprintf("collect=%d,0,%d,1000", streamMessages, size)}
	e := x.join(p)
	e.release()
	for i := range streamMessages {
		e.fill(i*size, size, i)
		e.post(e.send(i*size, size))
	}
	for range streamMessages {
		e.wait(verbs.WCSuccess)
	}
	e.finish()
	var n int
	x.must(scanLast(e.peer.Output(), "collected ", &n))
	x.arrived(n)
}

// streamIn receives messages of the guest.
func (x *row) streamIn(p plan) {
	size := streamSize(p.kind)
	p.steps = []string{"go", fmt.Sprintf("burst=%d,0,%d", streamMessages, size)}
	e := x.join(p)
	skip := 0
	if p.kind == verbs.UD {
		skip = 40 // the GRH
	}
	for i := range streamMessages {
		e.receive(i*(size+skip), size+skip)
	}
	e.release()
	e.finish()
	n := 0
	for _, wc := range e.drain() {
		if wc.Status != verbs.WCSuccess || int(wc.ByteLen) != size+skip {
			x.t.Fatalf("receive %d: %v, %d bytes", n, wc.Status, wc.ByteLen)
		}
		at := n*(size+skip) + skip
		e.same(at, size, int(e.mem[at]))
		n++
	}
	x.arrived(n)
}

// arrived judges how many messages of a stream came: the weather takes some,
// doubles some, and not all.
func (x *row) arrived(n int) {
	x.t.Helper()
	x.note = fmt.Sprintf("%d of %d messages", n, streamMessages)
	if n < streamMessages/2 {
		x.t.Errorf("%d of %d messages arrived", n, streamMessages)
	}
}
