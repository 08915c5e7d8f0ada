package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// module is the import path of the repository's root.
const module = "github.com/gantry-rdma/gantry"

// root is the repository's root as seen from this package's tests.
const root = "../.."

// A source is one parsed Go file. Files of every platform are read alike.
type source struct {
	path  string // from the root, with slashes
	test  bool
	lines int
	set   *token.FileSet
	tree  *ast.File
}

// pkg returns the folder of the file: "" for the root.
func (s source) pkg() string {
	if d := path.Dir(s.path); d != "." {
		return d
	}
	return ""
}

// at returns the place of a node, for a message.
func (s source) at(n ast.Node) token.Position {
	p := s.set.Position(n.Pos())
	p.Filename = s.path
	return p
}

// length returns how many lines a node takes.
func (s source) length(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

// generated reports whether a tool wrote the file.
func (s source) generated() bool { return ast.IsGenerated(s.tree) }

// texts reads every text file of the tree once, by its path from the root.
var texts = sync.OnceValues(func() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && e.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return err
		}
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p)))
		if err == nil && utf8.Valid(b) {
			files[p] = b
		}
		return err
	})
	return files, err
})

// sources parses every Go file of the tree once, in order of path.
var sources = sync.OnceValues(func() ([]source, error) {
	files, err := texts()
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var all []source
	for p, b := range files {
		if path.Ext(p) != ".go" || strings.Contains(p, "testdata/") {
			continue
		}
		tree, err := parser.ParseFile(set, p, b, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, source{p, strings.HasSuffix(p, "_test.go"), bytes.Count(b, []byte("\n")), set, tree})
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return all, nil
})

// goFiles returns the parsed tree and ends the test if there is none.
func goFiles(t *testing.T) []source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go files: the root was not found")
	}
	return all
}

// textFiles returns the text files of the tree.
func textFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// document returns one text file of the tree.
func document(t *testing.T, p string) string {
	t.Helper()
	b, ok := textFiles(t)[p]
	if !ok {
		t.Fatalf("%s is missing", p)
	}
	return string(b)
}
