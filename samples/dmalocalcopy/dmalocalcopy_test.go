package dmalocalcopy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/trace"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/sample"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// arguments asks for a shape of the copy.
func arguments(text string, sources, destinations, tasks int) []string {
	return []string{"-t", text, "-sources", strconv.Itoa(sources),
		"-destinations", strconv.Itoa(destinations), "-tasks", strconv.Itoa(tasks)}
}

func TestTextSurvivesEveryCut(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", maxText/16)
	for _, text := range []string{"x", "two", "a text of 32 bytes, give or take", "Grüße, 世界, ☃!", long} {
		for _, c := range []struct{ from, to, tasks int }{
			{1, 1, 1}, {2, 3, 1}, {3, 2, 5}, {1, 32, 2}, {32, 1, 2}, {31, 32, 3}, {32, 32, 4}, {63, 1, 1},
		} {
			if max(c.from, c.to) > len(text) {
				continue
			}
			name := fmt.Sprintf("%d bytes, %d to %d", len(text), c.from, c.to)
			var out, errOut bytes.Buffer
			r, err := Run(arguments(text, c.from, c.to, c.tasks), &out, &errOut)
			if err != nil || !r.OK || r.Tasks != c.tasks || r.Completed != c.tasks || errOut.Len() > 0 {
				t.Errorf("%s: got %+v, %v, and %q", name, r, err, &errOut)
			}
			if !strings.Contains(out.String(), fmt.Sprintf("reads: %q", text)) {
				t.Errorf("%s: the story does not end with the text: %q", name, &out)
			}
		}
	}
}

func TestOverlapIsRefusedInWords(t *testing.T) {
	var out bytes.Buffer
	if _, err := Run(nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if want := "is refused: dma memcpy: the source and the destination overlap"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in %q", want, &out)
	}
}

func TestSegmentsAreCheckedAgainstTheCapability(t *testing.T) {
	text := strings.Repeat("x", 100)
	for _, c := range []struct {
		sources, destinations, tasks int
		want                         string
	}{
		{33, 32, 1, "33 source and 32 destination segments, the device takes 64"},
		{64, 1, 1, "64 source and 1 destination segments, the device takes 64"},
		{1, 1, 1 << 17, "131072 tasks, a context has 65536"},
	} {
		var errOut bytes.Buffer
		r, err := Run(arguments(text, c.sources, c.destinations, c.tasks), io.Discard, &errOut)
		switch {
		case r.OK || !errors.Is(err, core.ErrInvalidValue) || errors.Is(err, sample.ErrUsage):
			t.Errorf("%+v: got %+v and %v, want %v", c, r, err, core.ErrInvalidValue)
		case !strings.Contains(err.Error(), c.want) || errOut.Len() > 0:
			t.Errorf("%+v: got %v and %q", c, err, &errOut)
		}
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{
		arguments("text", 0, 1, 1), arguments("text", 1, 0, 1), arguments("text", 1, 1, 0),
		arguments("text", -1, 1, 1), arguments("", 1, 1, 1), arguments("text", 5, 1, 1), arguments("text", 1, 5, 1),
		arguments(strings.Repeat("x", maxText+1), 1, 1, 1), {"-tasks", "four"}, {"-tasks", "99999999999999999999"},
	} {
		if r, err := Run(args, io.Discard, io.Discard); r.OK || !errors.Is(err, sample.ErrUsage) {
			t.Errorf("%.60q: got %+v and %v, want %v", args, r, err, sample.ErrUsage)
		}
	}
}

// A trace shows the sample as a task, its phases as regions, and each copy as a
// task of its own: their names are in it.
func TestPhasesAndTasksAreInATrace(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("somebody else is tracing")
	}
	var events bytes.Buffer
	if err := trace.Start(&events); err != nil {
		t.Fatal(err)
	}
	_, err := Run(nil, io.Discard, io.Discard)
	trace.Stop()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dma_local_copy", "check the capabilities", "lay out",
		"refuse an overlap", "compare", "clean up", "dma memcpy"} {
		if !bytes.Contains(events.Bytes(), []byte(name)) {
			t.Errorf("the trace does not name %q", name)
		}
	}
}
