package kit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A linker puts programs into an archive together with the shared libraries
// that they need.
type linker struct {
	tools   tree
	archive *archive
	have    map[string]bool
}

// add puts in one program or library.
func (l *linker) add(name, from string) error {
	if l.have[name] {
		return nil
	}
	l.have[name] = true
	l.archive.copy(name, from)
	libs, err := needed(from)
	if err != nil {
		return err
	}
	for _, lib := range libs {
		if err := l.addLibrary(lib); err != nil {
			return err
		}
	}
	return nil
}

// addLibrary puts in a library where the loader looks; the loader itself has
// its place in each program.
func (l *linker) addLibrary(lib string) error {
	from, err := l.tools.library(lib)
	if err != nil {
		return err
	}
	if strings.HasPrefix(lib, "ld-linux") {
		return l.add("lib64/"+lib, from)
	}
	return l.add("lib/x86_64-linux-gnu/"+lib, from)
}

// addDriver puts in what libibverbs loads to use rxe: a file that names the
// driver, and the driver.
func (l *linker) addDriver() error {
	if err := l.addLibrary("libgcc_s.so.1"); err != nil { // loaded when a thread ends
		return err
	}
	l.archive.file("etc/libibverbs.d/rxe.driver", []byte("driver rxe\n"))
	for _, root := range l.tools {
		found, err := filepath.Glob(filepath.Join(root, libraries[0], "libibverbs", "librxe-rdmav*.so"))
		if err != nil {
			return err
		}
		for _, f := range found {
			return l.add(libraries[0]+"/libibverbs/"+filepath.Base(f), f)
		}
	}
	return fmt.Errorf("the driver rxe of libibverbs: %w: %w", fs.ErrNotExist, ErrCannot)
}

// A moduleSet collects kernel modules in the order in which they can be loaded.
type moduleSet struct {
	files map[string]string // by name
	done  map[string]bool
	order []string // files, not compressed
	tmp   string   // where those go that were
	unxz  func(from string, to io.Writer) error
}

// moduleName is the name of a module's file: kernels write both - and _.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// find looks for modules under dir.
func (m *moduleSet) find(dir string) error {
	return filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(p, ".ko") || strings.HasSuffix(p, ".ko.xz")) {
			m.files[moduleName(p)] = p
		}
		return err
	})
}

// add adds a module behind those that it depends on. One that does not exist is
// built in, or not needed by this kernel.
func (m *moduleSet) add(name string) error {
	name = moduleName(name)
	file := m.files[name]
	if file == "" || m.done[name] {
		return nil
	}
	m.done[name] = true
	if strings.HasSuffix(file, ".xz") {
		plain, err := os.Create(filepath.Join(m.tmp, name+".ko"))
		if err != nil {
			return err
		}
		if err := errors.Join(m.unxz(file, plain), plain.Close()); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		file = plain.Name()
	}
	needs, err := moduleNeeds(file)
	if err != nil {
		return err
	}
	for _, n := range needs {
		if err := m.add(n); err != nil {
			return err
		}
	}
	m.order = append(m.order, file)
	return nil
}
