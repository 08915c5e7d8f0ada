package lint

import (
	"go/ast"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// may lists what each package may import from this module. A package that is
// not listed fails the test, so adding one is a decision and not an accident.
var may = map[string][]string{
	"":               {},
	"core":           {"internal/notify"},
	"device":         {"core"},
	"mem":            {"core", "device", "internal/ipc", "internal/sys"},
	"work":           {"internal/ring"},
	"dma":            {"core", "device", "mem", "work", "internal/ring", "internal/sys"},
	"comch":          {"core", "device", "mem", "internal/ipc", "internal/shmq", "internal/sys"},
	"syncevent":      {"core", "device", "mem", "internal/notify", "internal/sys"},
	"roce":           {},
	"internal/mad":   {},
	"internal/conn":  {"internal/mad", "roce"},
	"cm":             {"roce", "verbs", "work", "internal/mad", "internal/conn"},
	"internal/qp":    {"roce", "internal/frame", "internal/ring"},
	"internal/frame": {},
	"internal/link":  {"roce", "internal/frame", "internal/pcapng", "internal/sys", "internal/ring"},
	"internal/nic": {"roce", "work", "internal/frame", "internal/link", "internal/notify", "internal/qp",
		"internal/sys"},
	"verbs":               {"roce", "work", "internal/frame", "internal/link", "internal/nic", "internal/qp"},
	"internal/ring":       {},
	"internal/notify":     {},
	"internal/sys":        {},
	"internal/ipc":        {"internal/sys"},
	"internal/shmq":       {"internal/sys"},
	"internal/testkit":    {},
	"internal/script":     {"roce"},
	"internal/pcapng":     {},
	"internal/peer":       {"roce", "verbs", "internal/pcapng", "internal/script", "internal/sys"},
	"internal/rendezvous": {"internal/notify"},
	"internal/pingpong":   {"roce", "verbs", "work", "internal/link", "internal/notify", "internal/rendezvous"},
	"internal/rping":      {"cm", "roce", "verbs", "internal/link", "internal/notify", "internal/rendezvous"},
	"internal/perf":       {"*"},
	"internal/probe":      {"internal/sys"},
	"internal/lint":       {},
	"cmd/gantry":          {"*"},
	"apps/dmacopy":        {"core", "device", "mem", "dma", "comch", "internal/regular", "internal/side"},
	"apps/filecopy":       {"core", "device", "mem", "work", "dma", "internal/regular"},
	"apps/securechannel":  {"core", "device", "mem", "comch", "internal/side"},
	"internal/regular":    {},
	"internal/side":       {"core", "device", "comch"},
	"samples":             {"core", "device", "mem", "work", "dma", "comch", "syncevent"},
	"test/interop":        {"roce", "internal/pcapng"},
	"test/faults":         {},
}

// tools are the packages that make up the command, or test it, not the library.
// They may use other people's modules; the library has only the standard library
// and golang.org/x/sys, so that whoever imports it imports nothing else.
var tools = []string{"cmd/gantry", "test/interop", "internal/perf"}

// kernel lists the packages that may use golang.org/x/sys. Of package syscall
// everybody may use the error numbers; unsafe is for internal/sys alone.
var kernel = []string{"internal/sys", "internal/ipc", "internal/notify", "internal/probe", "internal/testkit/child", "samples/peevent"}

// denied lists imports that no package has, and what to use instead.
var denied = map[string]string{
	"math/rand": "math/rand/v2",
	"io/ioutil": "io and os",
	"log":       "log/slog",
	"reflect":   "types: nothing here needs it",
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range goFiles(t) {
		pkg := s.pkg()
		row, ok := may[wall(pkg)]
		if !ok {
			if !seen[pkg] {
				t.Errorf("package %q is not in the table of walls_test.go: say there what it may import", pkg)
			}
			seen[pkg] = true
			continue
		}
		seen[wall(pkg)] = true
		if s.test {
			continue
		}
		for _, spec := range s.tree.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			why := forbidden(pkg, name, row)
			if why != "" && !(name == "syscall" && onlyErrorNumbers(s)) {
				t.Errorf("%v: imports %s: %s", s.at(spec), name, why)
			}
		}
	}
	for pkg := range may {
		if !seen[pkg] {
			t.Errorf("the table of walls_test.go has package %q, which does not exist", pkg)
		}
	}
}

// onlyErrorNumbers reports whether the file uses nothing of package syscall but
// the numbers of errors and signals, which are names and call nothing.
func onlyErrorNumbers(s source) bool {
	only := true
	number := regexp.MustCompile(`^(E[A-Z0-9]+|Errno|SIG[A-Z]+)$`)
	ast.Inspect(s.tree, func(n ast.Node) bool {
		if f, ok := n.(*ast.SelectorExpr); ok && typeName(f.X) == "syscall" {
			only = only && number.MatchString(f.Sel.Name)
		}
		return only
	})
	return only
}

// wall returns the row that a package falls under: sub-packages of a command,
// of the samples or of the test tools share the row of the folder.
func wall(pkg string) string {
	for _, folder := range []string{"samples", "cmd/gantry", "internal/testkit", "test/interop"} {
		if strings.HasPrefix(pkg, folder+"/") {
			return folder
		}
	}
	return pkg
}

// forbidden says why a package may not import name, or "".
func forbidden(pkg, name string, row []string) string {
	if instead, no := denied[name]; no {
		return "use " + instead
	}
	if (name == "unsafe" || name == "C") && pkg != "internal/sys" {
		return "internal/sys is the one place for it"
	}
	tool := slices.Contains(tools, wall(pkg))
	first, _, _ := strings.Cut(name, "/")
	switch own, inside := strings.CutPrefix(name, module+"/"); {
	case inside:
		if !slices.Contains(row, own) && !slices.Contains(row, "*") && wall(own) != wall(pkg) {
			return "the table of walls_test.go does not allow it"
		}
	case name == "syscall" || strings.HasPrefix(name, "golang.org/x/sys/"):
		if !tool && !slices.Contains(kernel, pkg) {
			return "go through internal/sys"
		}
	case strings.Contains(first, "."):
		if !tool {
			return "a library package has the standard library and golang.org/x/sys only"
		}
	}
	return ""
}

// TestForbiddenSeesEveryKindOfBreach keeps the wall itself honest.
func TestForbiddenSeesEveryKindOfBreach(t *testing.T) {
	for _, c := range []struct {
		pkg, name string
		want      bool
	}{
		{"core", "fmt", false}, {"core", module + "/internal/notify", false}, {"core", module + "/internal/ring", true}, {"core", module + "/mem", true},
		{"core", "golang.org/x/sys/unix", true}, {"internal/sys", "golang.org/x/sys/unix", false},
		{"mem", "unsafe", true}, {"internal/sys", "unsafe", false}, {"device", "syscall", true},
		{"core", "github.com/spf13/cobra", true}, {"cmd/gantry", "github.com/spf13/cobra", false},
		{"cmd/gantry", module + "/dma", false}, {"cmd/gantry/cli", module + "/cmd/gantry/tty", false},
		{"samples", module + "/internal/ring", true}, {"samples/pepolling", module + "/dma", false},
		{"samples/pepolling", module + "/samples/frame", false}, {"dma", module + "/internal/sys", false}, {"dma", module + "/internal/notify", true},
		{"cmd/gantry", "math/rand", true}, {"work", "math/rand/v2", false}, {"mem", "C", true},
	} {
		if why := forbidden(c.pkg, c.name, may[wall(c.pkg)]); (why != "") != c.want {
			t.Errorf("%s importing %s: %q, want a breach: %v", c.pkg, c.name, why, c.want)
		}
	}
}

// TestEveryDependencyHasAReason keeps decision 0002 complete: each module that
// go.mod asks for is named there.
func TestEveryDependencyHasAReason(t *testing.T) {
	reasons := document(t, "docs/decisions/0002-dependencies.md")
	for _, file := range []string{"go.mod", "tools/go.mod"} {
		for line := range strings.Lines(document(t, file)) {
			f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			if len(f) != 2 || !strings.HasPrefix(f[1], "v") || !strings.Contains(f[0], ".") {
				continue // no requirement, or an indirect one
			}
			if !strings.Contains(reasons, "`"+f[0]+"`") {
				t.Errorf("%s requires %s, and decision 0002 does not say why", file, f[0])
			}
		}
	}
	if !strings.Contains(document(t, "tools/go.mod"), "honnef.co/go/tools ") ||
		!strings.Contains(reasons, "`honnef.co/go/tools`") {
		t.Error("staticcheck is not pinned in tools/go.mod, or decision 0002 does not say why it is")
	}
}
