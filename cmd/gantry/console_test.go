package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// perform runs one command line on a root with one command, whose body is given.
func perform(body func(*cobra.Command, []string) error, args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	c := &console{out: &o, err: &e}
	root := group(&cobra.Command{Use: "gantry"})
	work := &cobra.Command{Use: "work SRC DST", Args: wantArgs("SRC", "DST"), RunE: body}
	work.Flags().Bool("a", false, "")
	work.Flags().Bool("b", false, "")
	work.MarkFlagsMutuallyExclusive("a", "b")
	root.AddCommand(work)
	code = c.execute(root, append([]string{"work"}, args...))
	return code, o.String(), e.String()
}

func TestExitCodesTellWrongWorkFromWrongCommandLines(t *testing.T) {
	good := func(*cobra.Command, []string) error { return nil }
	for _, c := range []struct {
		name string
		body func(*cobra.Command, []string) error
		args []string
		code int
		says string
	}{
		{"good", good, []string{"a", "b"}, 0, ""},
		{"the work failed", func(*cobra.Command, []string) error { return errors.New("no room") }, []string{"a", "b"}, 1, "gantry: no room\n"},
		{"the body refuses", func(*cobra.Command, []string) error { return usagef("SRC is DST") }, []string{"a", "a"}, 2, "gantry: SRC is DST\n"},
		{"an argument is missing", good, []string{"a"}, 2, "gantry work needs SRC and DST: DST is missing\n"},
		{"one is too many", good, []string{"a", "b", "c"}, 2, `gantry work takes SRC and DST, and "c" is one argument too many`},
		{"flags exclude each other", good, []string{"a", "b", "--a", "--b"}, 2, "[a b]"},
		{"an unknown flag", good, []string{"a", "b", "--c"}, 2, "unknown flag: --c"},
		{"lines", func(*cobra.Command, []string) error { return errors.New("one\ntwo") }, []string{"a", "b"}, 1, "gantry: one\ngantry: two\n"},
	} {
		code, out, errOut := perform(c.body, c.args...)
		if code != c.code || out != "" || !strings.Contains(errOut, c.says) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q, want %d and %q", c.name, code, out, errOut, c.code, c.says)
		}
		if hint := strings.Contains(errOut, `gantry: run "gantry work --help"`); hint != (c.code == exitUsage) {
			t.Errorf("%s: the hint to the help is there: %v", c.name, hint)
		}
	}
}

func TestPanicIsAMessageAndNoStackTrace(t *testing.T) {
	t.Setenv("GANTRY_TRACE", "")
	code, out, errOut := perform(func(*cobra.Command, []string) error { var p *console; p.json = true; return nil }, "a", "b")
	if code != exitFailed || out != "" {
		t.Errorf("exit code %d, stdout %q", code, out)
	}
	for _, want := range []string{`internal error in "gantry work a b": runtime error: invalid memory address`, "please report"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("stderr has no %q: %s", want, errOut)
		}
	}
	if strings.Contains(errOut, "goroutine") || strings.Contains(errOut, ".go:") {
		t.Errorf("stderr has a stack trace: %s", errOut)
	}
}

func TestPanicIsLeftAloneWhenAskedFor(t *testing.T) {
	t.Setenv("GANTRY_TRACE", "1")
	defer func() {
		if r := recover(); r != "boom" {
			t.Errorf("recovered %v, want boom", r)
		}
	}()
	perform(func(*cobra.Command, []string) error { panic("boom") }, "a", "b")
	t.Error("the panic was swallowed")
}

func TestInterruptCancelsTheCommandWhichCleansUp(t *testing.T) {
	cleaned := false
	code, _, errOut := perform(func(cmd *cobra.Command, _ []string) error {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := self.Signal(syscall.SIGINT); err != nil {
			t.Skipf("this system cannot signal a process: %v", err)
		}
		<-cmd.Context().Done()
		cleaned = true
		return context.Cause(cmd.Context())
	}, "a", "b")
	if want := "gantry: interrupted: gantry work did not finish\n"; code != exitFailed || errOut != want || !cleaned {
		t.Errorf("exit code %d, stderr %q, cleaned up %v, want 1, %q, true", code, errOut, cleaned, want)
	}
}

func TestJSONIsOneDocumentWithPlainLetters(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out}
	if err := c.emit(map[string]string{"state": "idle>running"}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "{\n  \"state\": \"idle>running\"\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := c.emit(math.NaN()); err == nil {
		t.Error("a value that JSON does not have was printed")
	}
}

func TestNearestFindsSlipsOfTheFingerOnly(t *testing.T) {
	known := []string{"bench", "copy", "devices", "doctor", "version"}
	for name, want := range map[string]string{
		"devcies": "devices", "dev": "devices", "Doctor": "doctor", "coppy": "copy", "vresion": "version",
		"xyzzy": "", "": "", "b": "bench", "perf": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

func TestDistanceCountsLetters(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"copy", "copy", 0}, {"ab", "ba", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q are %d letters, want %d", c.a, c.b, got, c.want)
		}
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestResultsThatCannotBeWrittenAreAFailure(t *testing.T) {
	for _, args := range [][]string{
		{"version"}, {"version", "--json"}, {"devices"}, {"--help"}, {"sample", "list"}, {"sample", "pe_polling"},
	} {
		var errOut bytes.Buffer
		code := run(args, full{}, &errOut)
		if code != exitFailed || !strings.Contains(errOut.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%v: exit code %d, stderr %q", args, code, errOut.String())
		}
	}
}
