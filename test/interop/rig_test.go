//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/kit"
)

// Addresses of the two ends, from the blocks for documentation.
var (
	host4, guest4 = netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	host6, guest6 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
)

// more4 are further addresses of this end.
var more4 = []netip.Addr{netip.MustParseAddr("198.51.100.3"), netip.MustParseAddr("198.51.100.4"), netip.MustParseAddr("198.51.100.5")}

// tap is the name of the interface at this end.
const tap = "guest0"

// limit is how long a row may take. A guest that is emulated can stand still
// for a second, and so can the process of this machine.
const limit = 3 * time.Minute

// A rig is a guest with its cable.
type rig struct {
	guest *kit.Guest
	wire  *kit.Wire
	image *kit.Image
	mtu   int    // of the network
	out   string // folder of captures
	gids  map[netip.Addr]int
}

// newRig boots a guest.
func newRig(t *testing.T, kernel string, mtu int) *rig {
	t.Helper()
	r := &rig{image: images[kernel], mtu: mtu, out: outDir(t), gids: map[netip.Addr]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var err error
	if r.wire, err = kit.NewWire(tap); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.wire.Close(); err != nil {
			t.Error(err)
		}
	})
	addrs := []string{host4.String() + "/24", host6.String() + "/64"}
	for _, a := range more4 {
		addrs = append(addrs, a.String()+"/24")
	}
	if err := r.image.Network(ctx, tap, mtu, addrs...); err != nil {
		t.Fatal(err)
	}
	r.guest, err = kit.Boot(ctx, kit.Config{Image: r.image, Dir: t.TempDir(), MTU: mtu, Wire: r.wire,
		Addr: guest4.String() + "/24," + guest6.String() + "/64"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.guest.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, a := range []netip.Addr{guest4, guest6} {
		if r.gids[a], err = r.guest.GIDIndex(ctx, gidText(a)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("Linux %s ready after %.1f s", r.image.Release, r.guest.Booted.Seconds())
	return r
}

// outDir returns the folder of captures.
func outDir(t *testing.T) string {
	t.Helper()
	if *outFlag == "" {
		return t.TempDir()
	}
	if err := os.MkdirAll(*outFlag, 0o755); err != nil {
		t.Fatal(err)
	}
	return *outFlag
}

// gidText writes the GID of an address as the kernel does.
func gidText(a netip.Addr) string {
	b := a.As16()
	var groups []string
	for i := 0; i < len(b); i += 2 {
		groups = append(groups, fmt.Sprintf("%02x%02x", b[i], b[i+1]))
	}
	return strings.Join(groups, ":")
}

// A row is one exchange between the two ends. What its device has counted it
// leaves in ours.
type row struct {
	*rig
	t       *testing.T
	ctx     context.Context
	weather kit.Weather
	ours    map[string]uint64
	note    string             // for the report
	refused int                // packets that the kernel did not take, though they were not damaged
	calm    bool               // nothing may have been sent again, but for probes
	judge   func([2]kit.Tally) // looks at what passed on the wire, too; or nil
	gone    bool               // the guest's queue pair has gone or failed, so it drops what comes
	ends    []func()
}

// after does something when the exchange is over, however it ended, and before
// its packets are counted. What was said last is done first.
func (x *row) after(f func()) { x.ends = append(x.ends, f) }

func (x *row) end() {
	for len(x.ends) > 0 {
		f := x.ends[len(x.ends)-1]
		x.ends = x.ends[:len(x.ends)-1]
		f()
	}
}

// run runs one row: f does the exchange, in this weather. Then the packets of
// both directions have to be as they should.
func (r *rig) run(t *testing.T, name string, weather kit.Weather, f func(*row)) {
	t.Helper()
	begin := time.Now()
	var tally [2]kit.Tally
	var x *row
	ok := t.Run(name, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		x = &row{rig: r, t: t, ctx: ctx, weather: weather, ours: map[string]uint64{}}
		before, err := r.guest.Counters(ctx)
		if err != nil {
			t.Fatal(err)
		}
		film, err := os.Create(filepath.Join(r.out, r.image.Kernel+"-"+strings.ReplaceAll(name, " ", "-")+".pcapng"))
		if err != nil {
			t.Fatal(err)
		}
		r.wire.Record(film, weather)
		defer func() {
			x.end()
			tally, err = r.wire.Stop()
			if err := errors.Join(err, film.Close()); err != nil {
				t.Error(err)
			}
			x.check(tally, before)
		}()
		f(x)
	})
	if x != nil {
		results = append(results, result{r.image.Kernel, r.image.Release, name, ok, time.Since(begin), tally, x.refused, x.ours, x.note})
	}
}

// check looks at what passed on the wire and what both ends have counted.
func (x *row) check(tally [2]kit.Tally, before map[string]int64) {
	x.t.Helper()
	for way, who := range [2]string{"Gantry", "the kernel"} {
		y := tally[way]
		if y.BadICRC > 0 {
			x.t.Errorf("%s sent %d of %d packets with a wrong ICRC; the first: %s", who, y.BadICRC, y.Packets, y.FirstBad)
		}
	}
	if tally[kit.ToGuest].Packets+tally[kit.ToHost].Packets == 0 {
		x.t.Error("nobody sent a packet")
	}
	if tally[kit.ToHost].Damaged == 0 && x.ours["drop_icrc"] > 0 && !x.weather.NAT {
		x.t.Errorf("Gantry refused %d packets for their ICRC, and none was damaged", x.ours["drop_icrc"])
	}
	if x.calm {
		x.quiet(tally)
	}
	if x.judge != nil {
		x.judge(tally)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // the row's own may be over
	defer cancel()
	log, err := x.guest.Log(ctx)
	if err != nil {
		x.t.Error(err)
	}
	if tally[kit.ToGuest].Damaged == 0 && !x.weather.NAT && strings.Contains(strings.ToLower(log), "icrc") {
		x.t.Errorf("the kernel complains, and no packet was damaged: %s", log)
	}
	after, err := x.guest.Counters(ctx)
	if err != nil {
		x.t.Error(err)
	}
	g := tally[kit.ToGuest]
	x.refused = g.Delivered - g.Damaged - int(after["rcvd_pkts"]-before["rcvd_pkts"])
	// The answer to the last packet of a program that ends may come too late, and
	// so may a packet that was sent to ask for an answer.
	if late := 3 + int(x.ours["probe"]); x.refused > late && x.weather == good && !x.gone {
		x.t.Errorf("the kernel has not taken %d packets", x.refused)
	}
	var theirs []string
	for _, n := range slices.Sorted(maps.Keys(after)) {
		if d := after[n] - before[n]; d != 0 {
			theirs = append(theirs, fmt.Sprintf("%s %d", n, d))
		}
	}
	x.t.Logf("wire: Gantry sent %d (%d again), the kernel %d (%d again); delivered %d and %d; overrun %d and %d",
		g.Packets, g.Again, tally[kit.ToHost].Packets, tally[kit.ToHost].Again, g.Delivered, tally[kit.ToHost].Delivered,
		g.Overrun, tally[kit.ToHost].Overrun)
	x.t.Logf("kernel: %s", strings.Join(theirs, ", "))
	x.t.Logf("Gantry: %v", x.ours)
	if x.note != "" {
		x.t.Logf("note: %s", x.note)
	}
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "speed is unknown") { // of a virtual card it always is
			x.t.Logf("kernel says: %s", line)
		}
	}
}
