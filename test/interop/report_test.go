//go:build linux

package interop

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/kit"
)

// A result is a line of the report.
type result struct {
	kernel, release, name string
	ok                    bool
	took                  time.Duration
	tally                 [2]kit.Tally
	refused               int
	ours                  map[string]uint64
	note                  string
}

// results are those of all rows, in the order in which they ran.
var results []result

// failures returns how many rows failed.
func failures() (n int) {
	for _, r := range results {
		if !r.ok {
			n++
		}
	}
	return n
}

// summarise prints a line, which is all that is seen of a run that passes.
func summarise() {
	packets, wrong := 0, 0
	for _, r := range results {
		for _, y := range r.tally {
			packets, wrong = packets+y.Packets, wrong+y.BadICRC
		}
	}
	fmt.Printf("interop: %d rows, %d failed; %d packets verified, %d with a wrong ICRC\n", len(results), failures(), packets, wrong)
}

// report writes the results as a document.
func report(t *testing.T, path string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# Interop with the Linux kernel\n\n"+
		"Written by `make interop`; test/interop/README.md says what each row is. "+
		"Last run: %s, %d rows, %d failed.\n\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), len(results), failures())
	b.WriteString("Packets are RoCEv2 packets as sent; their ICRC was verified on the wire, independently of both ends. " +
		"Again: RC requests among them that were sent before. Not taken: packets that arrived undamaged and that the " +
		"receiver refused for their ICRC (Gantry) or did not count as received (the kernel, which also drops those for queue " +
		"pairs that are gone).\n\n")
	b.WriteString("| kernel | row | result | packets of Gantry | again | not taken | packets of the kernel | again | not taken | wrong ICRC | seconds |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range results {
		verdict := "passed"
		if !r.ok {
			verdict = "**failed**"
		}
		if r.note != "" {
			verdict += ": " + r.note
		}
		g, k := r.tally[kit.ToGuest], r.tally[kit.ToHost]
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %d | %d | %d | %d | %.1f |\n", r.release, r.name, verdict,
			g.Packets, g.Again, r.refused, k.Packets, k.Again, max(0, int(r.ours["drop_icrc"])-k.Damaged), g.BadICRC+k.BadICRC, r.took.Seconds())
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}
