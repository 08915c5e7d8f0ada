package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestTablesFitTheTerminal(t *testing.T) {
	header := []string{"name", "MTU", "what it is for"}
	rows := [][]string{{"gantry0", "65536", "loopback, which every machine has"}, {"gäntry10", "1500", "ether"}}
	for width, want := range map[int]string{
		50: "name        MTU  what it is for\n" +
			"gantry0   65536  loopback, which every machine has\n" +
			"gäntry10   1500  ether",
		49: "name        MTU  what it is for\n" +
			"gantry0   65536  loopback, which every machine\n" +
			"                 has\n" +
			"gäntry10   1500  ether",
		40: "name            gantry0\n" +
			"MTU             65536\n" +
			"what it is for  loopback, which every machine has\n\n" +
			"name            gäntry10\n" +
			"MTU             1500\n" +
			"what it is for  ether",
	} {
		if diff := cmp.Diff(want, fit(header, rows, []int{1}, width)); diff != "" {
			t.Errorf("at %d columns:\n%s", width, diff)
		}
	}
}

func TestPipesGetFields(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out}
	c.table([]string{"name", "MTU"}, [][]string{{"gantry0", "65536"}}, 1)
	if got, want := out.String(), "name\tMTU\ngantry0\t65536\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHelpOfEveryCommandFits80Columns(t *testing.T) {
	var out bytes.Buffer
	for _, path := range commandPaths(rootCommand(&console{})) {
		out.Reset()
		if code := run(append(path, "--help"), &out, &out); code != exitGood {
			t.Errorf("%v --help: exit code %d", path, code)
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(strings.TrimRight(line, "\n"))) > helpColumns {
				t.Errorf("%v --help is wider than %d columns: %s", path, helpColumns, line)
			}
		}
	}
}

// commandPaths returns the words of every command below cmd.
func commandPaths(cmd *cobra.Command) (paths [][]string) {
	for _, sub := range cmd.Commands() {
		paths = append(paths, strings.Fields(sub.CommandPath())[1:])
		paths = append(paths, commandPaths(sub)...)
	}
	return paths
}

func TestWrapBreaksBetweenWords(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, nil}, {"one", 1, []string{"one"}}, {"one two three", 7, []string{"one two", "three"}},
		{"a  b\nc", 80, []string{"a b c"}}, {"longerthanwidth x", 5, []string{"longerthanwidth", "x"}},
	} {
		if diff := cmp.Diff(c.want, wrap(c.text, c.width)); diff != "" {
			t.Errorf("%q at %d:\n%s", c.text, c.width, diff)
		}
	}
}
