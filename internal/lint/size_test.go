package lint

import (
	"go/ast"
	"testing"
)

// The caps, in lines. A file tells one story and a function does one thing;
// whoever meets a cap splits along the story, not at the line.
const (
	fileCap     = 400
	testFileCap = 600
	funcCap     = 60
)

// long lists what may be longer, and why: "file.go" or "file.go:Function".
// A switch over the states of a machine, and a table, are read in one piece.
var long = map[string]string{}

func TestFilesAreShort(t *testing.T) {
	for _, s := range goFiles(t) {
		limit := fileCap
		if s.test {
			limit = testFileCap
		}
		if s.lines > limit && long[s.path] == "" && !s.generated() {
			t.Errorf("%s has %d lines, the cap is %d", s.path, s.lines, limit)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	for _, s := range goFiles(t) {
		for _, d := range s.tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.generated() || long[s.path+":"+f.Name.Name] != "" {
				continue
			}
			if n := s.length(f); n > funcCap {
				t.Errorf("%v: %s has %d lines, the cap is %d", s.at(f), f.Name.Name, n, funcCap)
			}
		}
	}
}
