//go:build linux

package interop

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/kit"
)

// What the ends of an rping do.
const (
	rpingPort  = "7174"
	rpingPings = 25
	rpingSize  = 3000 // of a text: three packets
)

// rpingRows ping over the connection manager with the original.
func (r *rig) rpingRows(t *testing.T) {
	each(func(six, server bool) {
		if mode == "short" && six {
			return
		}
		r.run(t, fmt.Sprintf("rping %s %s", role(server), family(six)), good, func(x *row) { x.rping(six, server) })
	})
	if mode != "short" {
		for _, b := range bad {
			each(func(six, server bool) {
				r.run(t, fmt.Sprintf("rping %s %s %s", role(server), family(six), b.name), b.weather, func(x *row) { x.rping(six, server) })
			})
		}
		r.run(t, "rping many clients of Gantry", good, (*row).rpingManyOurs)
		r.run(t, "rping silent client of the kernel", good, (*row).rpingSilent)
	}
	r.run(t, "rping many clients of the kernel", good, (*row).rpingManyTheirs)
	r.run(t, "rping through NAT", kit.Weather{NAT: true}, func(x *row) {
		x.rpingHeard("packets come with a wrong ICRC (drop_icrc ", 5*time.Second)
	})
	r.run(t, "rping with port 4791 blocked", kit.Weather{Cut: true}, func(x *row) {
		x.rpingHeard("not one packet has come to UDP port 4791 of 198.51.100.1: look whether a server runs there, on 198.51.100.2, "+
			"and whether a firewall drops UDP port 4791", 2*time.Second)
	})
}

// rpingHeard has a client of Gantry not get through to the original, and say
// why.
func (x *row) rpingHeard(want string, limit time.Duration) {
	x.rpingServerOf(guest4)
	ours := x.start("rping", "-c", "-C", "1", "--addr", host4.String(), "-a", guest4.String(), "-p", rpingPort, "--timeout", limit.String())
	ours.end(1)
	if said := ours.errs.String(); !strings.Contains(said, want) {
		x.t.Errorf("gantry says %q, want %q in it", said, want)
	}
	x.gone = true
}

// rping plays with the original, one client and one server.
func (x *row) rping(six, server bool) {
	here, there := host4, guest4
	if six {
		here, there = host6, guest6
	}
	pings := []string{"-C", strconv.Itoa(rpingPings)}
	if server {
		ours := x.rpingServer(here)
		x.must(x.rpingTheirs(here, rpingSize, pings...).Wait(x.ctx))
		ours.rpingEnd(rpingDoc{Count: rpingPings, Size: rpingSize, Verified: true, Clients: 1})
		return
	}
	theirs := x.rpingServerOf(there)
	ours := x.rpingOurs(here, there, pings...)
	ours.rpingEnd(rpingDoc{Count: rpingPings, Size: rpingSize, Verified: true})
	x.must(theirs.Wait(x.ctx))
}

// rpingServer starts Gantry's server, and waits until it listens.
func (x *row) rpingServer(here netip.Addr, more ...string) *command {
	ours := x.start(append([]string{"rping", "-s", "-V", "--json", "-a", here.String(), "-p", rpingPort, "--timeout", "30s"}, more...)...)
	ours.await("waiting for a client")
	return ours
}

// rpingServerOf starts the original's server, and waits until it listens.
func (x *row) rpingServerOf(there netip.Addr, more ...string) *kit.Process {
	theirs := x.spawn(append([]string{"rping", "-s", "-V", "-a", there.String(), "-p", rpingPort, "-S", strconv.Itoa(rpingSize)}, more...)...)
	x.awaitService(rpingPort)
	return theirs
}

// rpingOurs starts a client of Gantry.
func (x *row) rpingOurs(here, there netip.Addr, more ...string) *command {
	return x.start(append([]string{"rping", "-c", "-V", "--json", "--addr", here.String(), "-a", there.String(), "-p", rpingPort,
		"-S", strconv.Itoa(rpingSize), "--timeout", "30s"}, more...)...)
}

// rpingTheirs starts a client of the original.
func (x *row) rpingTheirs(server netip.Addr, size int, more ...string) *kit.Process {
	return x.spawn(append([]string{"rping", "-c", "-V", "-a", server.String(), "-p", rpingPort, "-S", strconv.Itoa(size)}, more...)...)
}

// awaitService waits until a program in the guest listens on a port of the
// connection manager.
func (x *row) awaitService(port string) {
	x.t.Helper()
	for tick := time.Tick(20 * time.Millisecond); ; {
		for line := range strings.Lines(x.tool("rdma", "resource", "show", "cm_id")) {
			if strings.Contains(line, "LISTEN") && strings.Contains(line, ":"+port+" ") {
				return
			}
		}
		select {
		case <-tick:
		case <-x.ctx.Done():
			x.t.Fatalf("nobody in the guest listens on port %s", port)
		}
	}
}

// tool runs a program of the guest and returns what it prints.
func (x *row) tool(argv ...string) string {
	x.t.Helper()
	p := x.spawn(argv...)
	x.must(p.Wait(x.ctx))
	return p.Output()
}

// A rpingDoc is what gantry rping prints, as far as it is judged.
type rpingDoc struct {
	Count, Size     int
	Verified        bool
	Clients, Failed int
}

// rpingEnd waits for gantry, which has to have done this.
func (c *command) rpingEnd(want rpingDoc) {
	c.x.t.Helper()
	if got := c.rpingDocument(0); got != want {
		c.x.t.Errorf("gantry has done %+v, want %+v: %s", got, want, c.errs.String())
	}
}

// rpingDocument waits for gantry, which has to end with a status. Its counters
// are those of the row.
func (c *command) rpingDocument(status int) rpingDoc {
	c.x.t.Helper()
	c.end(status)
	var doc struct {
		rpingDoc
		Counters map[string]uint64
	}
	if err := json.Unmarshal([]byte(c.out.String()), &doc); err != nil {
		c.x.t.Fatalf("gantry says %q: %v", c.out.String(), err)
	}
	for name, n := range doc.Counters {
		c.x.ours[name] += n
	}
	return doc.rpingDoc
}

// A victim has texts that fill the buffer of its standard output, so that each
// ping is seen.
const victimSize = 4096

// rpingManyTheirs has clients of the original at Gantry's server: one after
// another, and at the same time while one of them is killed. Then the kernel
// disconnects, which between two pings is as good as a farewell.
func (x *row) rpingManyTheirs() {
	ours := x.rpingServer(host4, "-P")
	clients, count := 0, 0
	client := func(size, pings int) *kit.Process {
		clients, count = clients+1, count+pings
		return x.rpingTheirs(host4, size, "-C", strconv.Itoa(pings))
	}
	for n := range 3 {
		x.must(client(100*(n+1), n+1).Wait(x.ctx))
	}
	victim := x.rpingTheirs(host4, victimSize, "-v")
	x.must(victim.Await(x.ctx, "ping data"))
	var together []*kit.Process
	for range 3 {
		together = append(together, client(rpingSize, rpingPings))
	}
	victim.Kill()
	for _, p := range together {
		x.must(p.Wait(x.ctx))
	}
	x.must(client(rpingSize, 5).Wait(x.ctx))
	ours.awaitTimes("\ngantry: client ", clients+1) // the last may have ended a little earlier
	x.must(ours.cmd.Process.Signal(syscall.SIGINT))
	got := ours.rpingDocument(1)
	// Of a program that is killed the kernel may take the memory first, and refuse
	// what arrives then.
	failed := strings.Count(ours.errs.String(), "has left in the middle of ping ") +
		strings.Count(ours.errs.String(), " pings: message: remote operation error: ")
	if want := (rpingDoc{got.Count, victimSize, true, clients + 1, failed}); got != want || got.Count <= count {
		x.t.Errorf("gantry has done %+v, want %+v with more than %d pings: %s", got, want, count, ours.errs.String())
	}
	x.note = fmt.Sprintf("%d clients, one killed after %d pings", clients+1, got.Count-count)
}

// rpingSilent has a client fall silent: of what the kernel says when it is
// killed nothing arrives.
func (x *row) rpingSilent() {
	ours := x.start("rping", "-s", "-a", host4.String(), "-p", rpingPort, "--timeout", "3s")
	ours.await("waiting for a client")
	victim := x.rpingTheirs(host4, victimSize, "-v")
	x.must(victim.Await(x.ctx, "ping data"))
	x.after(func() { x.wire.SetWeather(good) })
	x.wire.SetWeather(kit.Weather{Cut: true})
	victim.Kill()
	ours.end(1)
	said := ours.errs.String()
	if !strings.Contains(said, "has said nothing for 3s, and ") && !strings.Contains(said, "acknowledges nothing any more, asked 8 times: ") {
		x.t.Errorf("gantry says %q", said)
	}
	x.gone = true
}

// rpingManyOurs has clients of Gantry at the original's server, each with an
// address of its own, and kills one. The next at its address is served. They
// come one after another, since the original mixes up those that come at once,
// and ping at the same time.
func (x *row) rpingManyOurs() {
	x.rpingServerOf(guest4, "-P")
	for range 3 {
		x.rpingOurs(host4, guest4, "-C", "3").rpingEnd(rpingDoc{Count: 3, Size: rpingSize, Verified: true})
	}
	const long, endless = 8 * rpingPings, 1 << 20 // pings: the victim must not come to its end
	client := func(here netip.Addr, count int) *command {
		c := x.rpingOurs(here, guest4, "-d", "-C", strconv.Itoa(count))
		c.await(" ping 2: ")
		return c
	}
	victim := client(more4[0], endless)
	together := []*command{client(host4, long), client(more4[1], long)}
	x.must(victim.cmd.Process.Kill())
	<-victim.over
	for _, c := range append(together, client(more4[0], long)) {
		c.rpingEnd(rpingDoc{Count: long, Size: rpingSize, Verified: true})
	}
	x.gone = true // what the server still asks of the one that was killed finds nobody
	x.note = "7 clients, one killed"
}
