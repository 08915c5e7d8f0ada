package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes this test program the command gantry for the scripts, which
// start it as a user does: a process with its own streams and exit code.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"gantry": main})
}

// leakChecked runs the tests, and then looks for goroutines that they left.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

// TestScripts runs testdata/*.txt. Beside the usual commands there are:
//
//	exits CODE gantry ...    the command ends with this exit code
//	json PATH [VALUE]        standard output is one JSON document that has PATH
//	                         (a.b.0.c; * is every element of a list), with VALUE
func TestScripts(t *testing.T) {
	end := time.Now().Add(8 * time.Minute) // a little earlier, what a script waits for prints its goroutines
	if last, ok := t.Deadline(); ok && last.Before(end) {
		end = last
	}
	testscript.Run(t, testscript.Params{
		Deadline:            end,
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GANTRY_TRACE", "1")           // a panic is not to be hidden
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each process takes a second
			for name, value := range perfPlaces() {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"json":  jsonHas,
		},
	})
}

// exits runs a command and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// jsonHas checks the JSON document on standard output.
func jsonHas(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: json PATH [VALUE]")
	}
	var doc any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc); err != nil {
		ts.Fatalf("standard output is not one JSON document: %v", err)
	}
	found := at(doc, strings.Split(args[0], "."))
	good := len(found) > 0
	for _, v := range found {
		text, _ := json.Marshal(v)
		if s, ok := v.(string); ok {
			text = []byte(s)
		}
		good = good && v != missing{} && (len(args) == 1 || string(text) == args[1])
	}
	if good == neg {
		ts.Fatalf("json %s: found %v", strings.Join(args, " "), found)
	}
}

// missing stands for what a path leads to and is not there.
type missing struct{}

// at returns what is at path below v: several values where the path has *.
func at(v any, path []string) []any {
	if len(path) == 0 {
		return []any{v}
	}
	switch v := v.(type) {
	case map[string]any:
		if below, ok := v[path[0]]; ok {
			return at(below, path[1:])
		}
	case []any:
		var found []any
		for i, below := range v {
			if path[0] == "*" || path[0] == strconv.Itoa(i) {
				found = append(found, at(below, path[1:])...)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return []any{missing{}}
}
