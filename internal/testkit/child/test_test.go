package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// innerVariable says what TestInner does in another process.
const innerVariable = "CHILD_TEST_INNER"

// TestInner is what TestWhatBecomesOfAnInnerTest runs.
func TestInner(t *testing.T) {
	part := func(name string, skips bool, why string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if t.Log("this one logs"); skips {
				t.Skip(why)
			}
		})
	}
	switch os.Getenv(innerVariable) {
	case "passes":
		part("a", false, "")
	case "fails":
		t.Error("it is wrong")
	case "skips":
		t.Skip("no route\nto anywhere")
	case "skips without a word":
		t.SkipNow()
	case "skips a part":
		part("a", true, "no route")
		part("b", false, "")
	case "skips parts":
		part("a", true, "no route")
		part("b", true, "no address")
	case "panics":
		panic("it is broken")
	default:
		t.Skip("it is for TestWhatBecomesOfAnInnerTest")
	}
}

func TestWhatBecomesOfAnInnerTest(t *testing.T) {
	for _, c := range []struct {
		inner, role, name string
		reasons           []string
		fails, skips      string // words of what it says, "" for nothing at all
	}{
		{inner: "passes"},
		{inner: "passes", reasons: []string{"no route"}},
		{inner: "fails", fails: "it is wrong"},
		{inner: "fails", reasons: []string{"it is wrong"}, fails: "exit status 1"},
		{inner: "panics", fails: "it is broken"},
		{inner: "skips", fails: "TestInner was skipped:\n"},
		{inner: "skips", reasons: []string{"no address"}, fails: "to anywhere\nThat is no reason"},
		{inner: "skips", reasons: []string{"no address", "no route"}, skips: "TestInner was skipped:\n    test_test.go:"},
		{inner: "skips without a word", reasons: []string{"no route"}, fails: "TestInner was skipped:\nThat is no"},
		{inner: "skips a part", fails: "TestInner/a was skipped:\n"},
		{inner: "skips a part", reasons: []string{"no route"}, skips: "TestInner/a was skipped:\n"},
		{inner: "skips parts", reasons: []string{"no route"}, fails: "TestInner/b was skipped:\n"},
		{inner: "skips parts", reasons: []string{"no "}, skips: "TestInner/b was skipped:\n"},
		{inner: "", fails: "it is for TestWhat"},
		{inner: "passes", name: "TestInne", fails: "TestInne was not run to its end:\ntesting: warning: no tests to run"},
		{inner: "passes", role: "silent", fails: "TestInner was not run to its end"},
		{inner: "passes", role: "unprepared", skips: "TestInner could not be prepared"},
	} {
		w := &witness{TB: t}
		cmd := Command(w, os.Args[0])
		cmd.Env = append(os.Environ(), innerVariable+"="+c.inner, roleVariable+"="+c.role)
		if c.name == "" {
			c.name = "TestInner"
		}
		Test(w, cmd, c.name, c.reasons...)
		w.want(c.fails, c.skips, c.inner, c.role, c.name, c.reasons)
	}
}

func TestAnInnerTestOfNoProgram(t *testing.T) {
	w := &witness{TB: t}
	Test(w, Command(w, filepath.Join(t.TempDir(), "nothing")), "TestInner", "no route")
	w.want("TestInner was not started", "")
}

// want compares what has become of a test with what should have: that it has
// failed, or was skipped, with words of what it has said, or neither.
func (w *witness) want(fails, skips string, of ...any) {
	w.Helper()
	for _, c := range []struct{ what, said, want string }{{"fails", w.said.String(), fails}, {"skips", w.skips.String(), skips}} {
		if (c.said == "") != (c.want == "") || !strings.Contains(c.said, c.want) {
			w.TB.Errorf("%q: it %s with %q, want %q", of, c.what, c.said, c.want)
		}
	}
}

// A test has passed when it says so itself: neither a part of it nor a test whose
// name begins like its own does that.
func TestWhoseOutcomeItIs(t *testing.T) {
	for out, want := range map[string]bool{
		"--- PASS: TestInner (0.00s)\n    --- PASS: TestInner/a (0.00s)\n": true,
		"    --- PASS: TestInner/a (0.00s)\nPASS\n":                        false,
		"--- PASS: TestInnermost (0.00s)\nPASS\n":                          false,
		"--- FAIL: TestInner (0.00s)\n":                                    false,
	} {
		if passed, skipped, unwanted := outcome(out, "TestInner", nil); passed != want || skipped+unwanted != "" {
			t.Errorf("%q: passed %v, want %v; skipped %q", out, passed, want, skipped+unwanted)
		}
	}
}
