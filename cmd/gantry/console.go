package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gantry-rdma/gantry/core"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// A console is where a command prints. The rules are the same for all:
//
//   - results go to out, everything else to err, with the program's name before
//     it;
//   - with json, out holds one JSON document and nothing else;
//   - a terminal gets aligned tables and progress bars, a pipe lines of fields
//     with tabs between them; colours nobody gets;
//   - an error says what was asked, what was found, and what to do.
type console struct {
	out, err io.Writer
	json     bool // set by the flag --json

	running bool // the body of the command has begun
}

// emit prints v as the one JSON document.
func (c *console) emit(v any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write the result as JSON: %w", err)
	}
	return nil
}

// printf prints a piece of the result.
func (c *console) printf(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// notef tells the user something that is no result. Each line gets the
// program's name; the newline at the end is added.
func (c *console) notef(format string, args ...any) {
	for line := range strings.SplitSeq(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n") {
		fmt.Fprintf(c.err, "gantry: %s\n", line)
	}
}

// results is standard output, and remembers whether all of it was written: on a
// full disk a command that printed nothing must not end well.
type results struct {
	to   io.Writer
	lost error // the first one
}

// Write implements io.Writer.
func (r *results) Write(b []byte) (int, error) {
	n, err := r.to.Write(b)
	core.KeepFirst(&r.lost, err)
	return n, err
}

// file returns the file behind w, or nil.
func file(w io.Writer) *os.File {
	if r, ok := w.(*results); ok {
		w = r.to
	}
	f, _ := w.(*os.File)
	return f
}

// isTerminal reports whether somebody reads w on a screen.
func isTerminal(w io.Writer) bool {
	f := file(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// width returns how many columns a line of results may have: those of the
// terminal, or 80 where there is none.
func (c *console) width() int {
	if f := file(c.out); f != nil {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 80
}

// bug reports a panic of this program. The stack is for its makers, so it comes
// only when asked for.
func (c *console) bug(panicked any, args []string) {
	c.notef("internal error in %q: %v", "gantry "+strings.Join(args, " "), panicked)
	c.notef("this is a bug in Gantry: please report it, with the output of \"gantry version\"")
	c.notef("and of the same command with GANTRY_TRACE=1 in its environment")
}

// A usageError is a command line that is wrong: exit code 2.
type usageError struct{ error }

// Unwrap returns the reason.
func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError, for what the body of a command finds wrong with
// its flags or arguments.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// wantArgs accepts exactly one argument for each name, as the usage line of the
// command names them.
func wantArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == len(names):
			return nil
		case len(names) == 0:
			return usagef("%s takes no arguments, and was given %q", cmd.CommandPath(), args[0])
		case len(args) < len(names):
			return usagef("%s needs %s: %s is missing", cmd.CommandPath(), list(names, "and"), list(names[len(args):], "and"))
		}
		return usagef("%s takes %s, and %q is one argument too many", cmd.CommandPath(), list(names, "and"), args[len(names)])
	}
}

// list joins words as a sentence does: "a, b or c".
func list(words []string, last string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
	}
	return strings.Join(words, "")
}

// unknown makes the error for a name that owner does not have, and suggests the
// nearest of those that it has.
func unknown(what, name, owner string, known []string) error {
	hint := ""
	if n := nearest(name, known); n != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", n)
	}
	if len(known) == 0 {
		known = []string{"none"}
	}
	return usagef("unknown %s %q%s: %s has %s", what, name, hint, owner, list(known, "and"))
}
