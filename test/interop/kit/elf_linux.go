package kit

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// needed returns the shared libraries that a program or library names.
func needed(path string) (libs []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	libs, err = f.ImportedLibraries()
	return libs, errors.Join(err, f.Close())
}

// moduleNeeds returns the modules that a kernel module depends on, as the names
// of their files without ending. They stand in a section of text fields that
// end with zero.
func moduleNeeds(path string) (names []string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("%s is no kernel module", path)
	}
	b, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return dependencies(string(b)), nil
}

// dependencies reads the field of dependencies.
func dependencies(modinfo string) (names []string) {
	for field := range strings.SplitSeq(modinfo, "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			names = append(names, strings.Split(list, ",")...)
		}
	}
	return names
}
