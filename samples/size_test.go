package samples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A sample is read in one sitting.
const longest = 150

func TestSamplesAreShort(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte("\n")); n > longest {
			t.Errorf("%s has %d lines, the cap is %d", f, n, longest)
		}
	}
}
