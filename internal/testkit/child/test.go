package child

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Unprepared is the exit code of a script that could not prepare what its test
// needs, and so has not run it.
const Unprepared = 77

// Test runs one test in the process c, a test program to whose arguments it adds
// which one: t fails unless that test has passed, with all its parts. Success and
// the word PASS do not say so: a test program that has skipped its test, or has
// no such test, ends like that as well.
//
// What keeps the test from running skips t too, if it is one of these: the
// system refuses the namespace of c; c ends with [Unprepared]; or the test skips
// itself with a text that contains one of reasons.
func Test(t testing.TB, c *exec.Cmd, name string, reasons ...string) {
	t.Helper()
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	c.Args = append(c.Args, "-test.run=^"+name+"$", "-test.v")
	err := c.Start()
	switch {
	case err != nil && refused(c, err):
		t.Skipf("no namespace for %s here: %v", name, err)
		return
	case err != nil:
		t.Errorf("%s was not started: %v", name, err)
		return
	}
	err = c.Wait()
	if c.ProcessState.ExitCode() == Unprepared {
		t.Skipf("%s could not be prepared:\n%s", name, &out)
		return
	}
	passed, skipped, unwanted := outcome(out.String(), name, reasons)
	switch {
	case err != nil:
		t.Errorf("%s: %v\n%s", name, err, &out)
	case unwanted != "":
		t.Errorf("%sThat is no reason to skip this test.\n%s", unwanted, &out)
	case skipped != "":
		t.Skip(skipped)
	case !passed:
		t.Errorf("%s was not run to its end:\n%s", name, &out)
	}
}

// outcome reads what a test program prints with -test.v: whether the test has
// passed, and which of its parts were skipped, for one of reasons or unwanted.
func outcome(out, name string, reasons []string) (passed bool, skipped, unwanted string) {
	header := regexp.MustCompile(`^ *(?:=== [A-Z]+|--- ([A-Z]+):) +(` + regexp.QuoteMeta(name) + `(?:/\S+)?)\s`)
	said := map[string]string{} // by each part
	part := ""                  // that the lines are of
	for line := range strings.Lines(out) {
		m := header.FindStringSubmatch(line)
		if m == nil {
			said[part] += line
			continue
		}
		part = m[2]
		switch m[1] {
		case "PASS":
			passed = passed || part == name
		case "SKIP":
			text := fmt.Sprintf("%s was skipped:\n%s", part, said[part])
			if among(reasons, said[part]) {
				skipped += text
			} else {
				unwanted += text
			}
		}
	}
	return passed, skipped, unwanted
}

func among(reasons []string, text string) bool {
	for _, r := range reasons {
		if strings.Contains(text, r) {
			return true
		}
	}
	return false
}
