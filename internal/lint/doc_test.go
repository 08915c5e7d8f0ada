package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageHasAComment(t *testing.T) {
	has := map[string]bool{}
	for _, s := range goFiles(t) {
		if !s.test {
			has[s.pkg()] = has[s.pkg()] || s.tree.Doc != nil
		}
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("package %q has no package comment", pkg)
		}
	}
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	for _, s := range goFiles(t) {
		if s.test || s.generated() {
			continue
		}
		for _, d := range s.tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if receiver := receiverOf(d); d.Name.IsExported() && (receiver == "" || ast.IsExported(receiver)) {
					wantComment(t, s, d.Name, d.Doc)
				}
			case *ast.GenDecl:
				checkGroup(t, s, d)
			}
		}
	}
}

// TestPublicPackagesHaveExamples wants two in each package that a program
// imports; the root and the programs themselves are none.
func TestPublicPackagesHaveExamples(t *testing.T) {
	examples := map[string]int{}
	for _, s := range goFiles(t) {
		top, _, _ := strings.Cut(s.pkg(), "/")
		if slices.Contains([]string{"", "internal", "cmd", "samples", "test"}, top) {
			continue
		}
		examples[s.pkg()] += 0
		for _, d := range s.tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && strings.HasPrefix(f.Name.Name, "Example") {
				examples[s.pkg()]++
			}
		}
	}
	for pkg, n := range examples {
		if n < 2 {
			t.Errorf("package %s has %d examples, want 2", pkg, n)
		}
	}
}

// checkGroup looks at one declaration of types, constants or variables. A
// comment on a group speaks for all constants and variables in it.
func checkGroup(t *testing.T, s source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			doc := spec.Doc
			if doc == nil {
				doc = d.Doc
			}
			wantComment(t, s, spec.Name, doc)
			checkMembers(t, s, spec)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					t.Errorf("%v: %s has no comment", s.at(name), name.Name)
				}
			}
		}
	}
}

// checkMembers looks at the fields of a struct or the methods of an interface.
// In internal packages, whose readers have the code before them, the comment of
// the type may speak for them.
func checkMembers(t *testing.T, s source, spec *ast.TypeSpec) {
	t.Helper()
	if strings.HasPrefix(s.pkg(), "internal/") {
		return
	}
	var list *ast.FieldList
	switch body := spec.Type.(type) {
	case *ast.StructType:
		list = body.Fields
	case *ast.InterfaceType:
		list = body.Methods
	default:
		return
	}
	// One comment may stand above a run of fields without a blank line.
	covered, last := false, 0
	for _, f := range list.List {
		line := s.at(f).Line
		if f.Doc != nil {
			covered = true
		} else if line != last+1 {
			covered = false
		}
		last = s.set.Position(f.End()).Line
		for _, name := range f.Names {
			if name.IsExported() && !covered && f.Comment == nil {
				t.Errorf("%v: %s.%s has no comment", s.at(name), spec.Name.Name, name.Name)
			}
		}
	}
}

// wantComment wants a comment that begins with the name, after an article.
func wantComment(t *testing.T, s source, name *ast.Ident, doc *ast.CommentGroup) {
	t.Helper()
	if doc == nil {
		t.Errorf("%v: %s has no comment", s.at(name), name.Name)
		return
	}
	if !regexp.MustCompile(`^((A|An|The) )?` + name.Name + `\b`).MatchString(doc.Text()) {
		t.Errorf("%v: the comment of %s does not begin with the name", s.at(name), name.Name)
	}
}

// receiverOf returns the type name of a method's receiver, or "".
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	return typeName(d.Recv.List[0].Type)
}

// typeName strips pointers and type parameters from a type expression.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// TestNamesSayWhatThingsAre refuses the names that say nothing, in every
// declared type.
func TestNamesSayWhatThingsAre(t *testing.T) {
	empty := regexp.MustCompile(`(Manager|Helper|Util|Utils|Common|Base|Impl)$`)
	for _, s := range goFiles(t) {
		for _, d := range s.tree.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				if name := spec.(*ast.TypeSpec).Name; empty.MatchString(name.Name) {
					t.Errorf("%v: type %s: say what it is", s.at(name), name.Name)
				}
			}
		}
	}
}
