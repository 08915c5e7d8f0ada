package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// TestGantryNamesExist reads the tables of docs/doca-names.md: every Gantry
// name in the second column of a row is declared where it says.
func TestGantryNamesExist(t *testing.T) {
	name := regexp.MustCompile("`([a-z]+(?:\\.[A-Z]\\w*){1,2})`")
	declared := declarations(t)
	rows, names := 0, 0
	for n, line := range strings.Split(document(t, "docs/doca-names.md"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "doca_") {
			continue
		}
		rows++
		found := name.FindAllStringSubmatch(cells[2], -1)
		names += len(found)
		if len(found) == 0 && !strings.Contains(cells[2], "not yet") && !strings.Contains(cells[2], "none") {
			t.Errorf("line %d: no Gantry name, nor \"not yet\" or \"none\": %s", n+1, strings.TrimSpace(line))
		}
		for _, m := range found {
			if !declared[m[1]] {
				t.Errorf("line %d: %s does not exist", n+1, m[1])
			}
		}
	}
	if rows < 100 || names < 100 {
		t.Errorf("found %d rows with %d names: the tables were not read", rows, names)
	}
}

// declarations returns every exported name of the tree in the forms
// pkg.Name, pkg.Type.Method and pkg.Type.Field. Methods and fields that an
// embedded type of the tree lends count too.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	d := map[string]bool{}
	embeds := map[string][]string{} // type -> embedded types
	for _, s := range goFiles(t) {
		if s.test {
			continue
		}
		pkg := s.tree.Name.Name
		for _, decl := range s.tree.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if r := receiverOf(decl); r != "" {
					d[pkg+"."+r+"."+decl.Name.Name] = true
				} else {
					d[pkg+"."+decl.Name.Name] = true
				}
			case *ast.GenDecl:
				declareGroup(d, embeds, pkg, decl)
			}
		}
	}
	for range 3 { // as deep as types embed each other
		lend(d, embeds)
	}
	return d
}

// declareGroup adds the names of one declaration.
func declareGroup(d map[string]bool, embeds map[string][]string, pkg string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				d[pkg+"."+n.Name] = true
			}
		case *ast.TypeSpec:
			own := pkg + "." + spec.Name.Name
			d[own] = true
			switch body := spec.Type.(type) {
			case *ast.StructType:
				declareMembers(d, embeds, own, body.Fields)
			case *ast.InterfaceType:
				declareMembers(d, embeds, own, body.Methods)
			}
		}
	}
}

// declareMembers adds the fields or methods of the type own, and notes what it
// embeds.
func declareMembers(d map[string]bool, embeds map[string][]string, own string, list *ast.FieldList) {
	pkg, _, _ := strings.Cut(own, ".")
	for _, f := range list.List {
		for _, n := range f.Names {
			d[own+"."+n.Name] = true
		}
		if len(f.Names) > 0 {
			continue
		}
		x := f.Type
		if star, ok := x.(*ast.StarExpr); ok {
			x = star.X
		}
		if of, ok := x.(*ast.SelectorExpr); ok {
			embeds[own] = append(embeds[own], typeName(of.X)+"."+of.Sel.Name)
		} else {
			embeds[own] = append(embeds[own], pkg+"."+typeName(x))
		}
	}
}

// lend gives every type the members of the types that it embeds.
func lend(d map[string]bool, embeds map[string][]string) {
	for own, list := range embeds {
		for _, from := range list {
			for name := range d {
				member, ok := strings.CutPrefix(name, from+".")
				if ok && token.IsExported(member) {
					d[own+"."+member] = true
				}
			}
		}
	}
}
