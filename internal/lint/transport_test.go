package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of the transport names tests and scripts. Each has to exist.
func TestTheTransportTableNamesWhatExists(t *testing.T) {
	doc, err := os.ReadFile("../../docs/transport.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	files, err := filepath.Glob("../../verbs/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	tests := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(doc), -1)
	if len(tests) < 50 {
		t.Errorf("the table names %d tests, want what shows each row", len(tests))
	}
	for _, name := range tests {
		if !strings.Contains(code.String(), "func "+name+"(") {
			t.Errorf("docs/transport.md names %s, which package verbs does not have", name)
		}
	}
	scripts := 0
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(doc), -1) {
		for _, name := range regexp.MustCompile(`\b[a-z0-9]+(-[a-z0-9]+)+\b`).FindAllString(row, -1) {
			if _, err := os.Stat("../../docs/probes/" + name + ".probe"); err == nil {
				scripts++
			} else if !words[name] {
				t.Errorf("docs/transport.md names the script %s, which does not exist", name)
			}
		}
	}
	if scripts < 50 {
		t.Errorf("the table names %d scripts, want more", scripts)
	}
}

// words are those with a hyphen that are no scripts.
var words = map[string]bool{"zero-based": true, "re-registration": true, "end-to-end": true, "wrap-around": true}
