package lint

import (
	"go/ast"
	"strings"
	"testing"
)

// TestEveryGoroutineIsListed wants each file that starts a goroutine named in
// ARCHITECTURE.md, where a reader finds who stops it.
func TestEveryGoroutineIsListed(t *testing.T) {
	listed := document(t, "ARCHITECTURE.md")
	for _, s := range goFiles(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			if starts(n) && !strings.Contains(listed, "`"+s.path+"`") {
				t.Errorf("%v: starts a goroutine, and ARCHITECTURE.md does not name `%s`", s.at(n), s.path)
			}
			return true
		})
	}
}

// starts reports whether n starts a goroutine: a go statement, a call of a
// method Go with one argument, as sync.WaitGroup has it, or an AfterFunc, which
// packages context and time run on a goroutine of its own.
func starts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Go" && len(n.Args) == 1 || f.Sel.Name == "AfterFunc")
	}
	return false
}

// sleepers lists the files that may call time.Sleep, and why.
var sleepers = map[string]string{
	"internal/notify/nap_other.go": "systems without a better nap have this one",
}

// TestNobodySleeps: a test that sleeps is slow or flaky, and in the library
// time.Sleep takes far longer than the microseconds that are asked of it.
func TestNobodySleeps(t *testing.T) {
	for _, s := range goFiles(t) {
		if sleepers[s.path] != "" {
			continue
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			if f, ok := n.(*ast.SelectorExpr); ok && f.Sel.Name == "Sleep" && typeName(f.X) == "time" {
				t.Errorf("%v: time.Sleep: wait for what should happen", s.at(n))
			}
			return true
		})
	}
}

// TestCtxIsAContext: the name ctx is for a context.Context. A DOCA context is
// named otherwise, because both stand side by side.
func TestCtxIsAContext(t *testing.T) {
	for _, s := range goFiles(t) {
		ast.Inspect(s.tree, func(n ast.Node) bool {
			f, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			for _, name := range f.Names {
				if name.Name != "ctx" {
					continue
				}
				of, ok := f.Type.(*ast.SelectorExpr)
				if !ok || typeName(of.X) != "context" || of.Sel.Name != "Context" {
					t.Errorf("%v: ctx is no context.Context", s.at(name))
				}
			}
			return true
		})
	}
}

// TestReceiversAreOneLetter keeps methods of one type looking alike.
func TestReceiversAreOneLetter(t *testing.T) {
	for _, s := range goFiles(t) {
		for _, d := range s.tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			for _, name := range f.Recv.List[0].Names {
				if len(name.Name) > 1 {
					t.Errorf("%v: receiver %s: one letter", s.at(name), name.Name)
				}
			}
		}
	}
}

// runners lists the files that may run a test in another process by themselves,
// and why.
var runners = map[string]string{
	"samples/still_linux_test.go":  "its process is killed, and must not end",
	"internal/lint/habits_test.go": "it looks for what does",
}

// TestTestsOfAnotherProcessAreLookedAt: a test program succeeds, and prints PASS,
// also when it has skipped its test, or has none of that name. child.Test tells
// these apart.
func TestTestsOfAnotherProcessAreLookedAt(t *testing.T) {
	for _, s := range goFiles(t) {
		if runners[s.path] != "" || strings.HasPrefix(s.path, "internal/testkit/child/") {
			continue
		}
		ast.Inspect(s.tree, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && strings.Contains(strings.ReplaceAll(text.Value, "-test.run=^$", ""), "-test.run") {
				t.Errorf("%v: %s: run a test with child.Test, or none with -test.run=^$", s.at(n), text.Value)
			}
			return true
		})
	}
}
