package allocs

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/race"
)

// A recorder is a test that notes a failure instead of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Helper()               {}

var sink *[64]byte

func TestNoneAcceptsCodeThatDoesNotAllocate(t *testing.T) {
	n := 0
	None(t, func() { n++ })
}

func TestNoneSeesOneAllocationInTwoHundredRuns(t *testing.T) {
	if race.Enabled {
		t.Skip("allocations are not counted under the race detector")
	}
	r := &recorder{TB: t}
	n := 0
	None(r, func() {
		if n++; n%200 == 0 {
			sink = new([64]byte)
		}
	})
	if !r.failed {
		t.Error("got no failure, want one")
	}
}

func TestNoneAllowsAllocationsWhileWarmingUp(t *testing.T) {
	n := 0
	None(t, func() {
		if n++; n < runs {
			sink = new([64]byte)
		}
	})
}
