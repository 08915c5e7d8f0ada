package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// wantText checks a file's contents; "" is no file.
func wantText(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if string(b) != want || (err == nil) != (want != "") {
		t.Errorf("%s: got %q, %v, want %q", path, b, err, want)
	}
}

// A new file is not seen before Commit, nor after Discard, and one that was
// there stays as it was until then.
func TestFilesAppearWhole(t *testing.T) {
	for _, old := range []string{"", "old"} {
		for _, commit := range []bool{false, true} {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if old != "" {
				write(t, path, old)
			}
			n, err := Create(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.WriteString("new"); err != nil {
				t.Fatal(err)
			}
			wantText(t, path, old)
			want := old
			if commit {
				want = "new"
				if err := n.Commit(); err != nil {
					t.Error(err)
				}
			}
			for range 2 { // the second has nothing to do
				if err := n.Discard(); err != nil {
					t.Error(err)
				}
			}
			wantText(t, path, want)
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != min(1, len(want)) {
				t.Errorf("%d files, %v", len(entries), err)
			}
		}
	}
}

func TestOpenTellsWhatAFileIs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, "text")
	f, err := Open(path)
	if err != nil || f.Size != 4 || f.Info.Name() != "file" {
		t.Fatalf("got %+v, %v", f, err)
	}
	if err := f.Whole(); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	if err := f.Explain(fs.ErrInvalid); !strings.HasPrefix(err.Error(), "read ") {
		t.Errorf("another error: %v", err)
	}
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if err := f.Whole(); err == nil || !strings.Contains(err.Error(), "was truncated while it was copied: it had 4 bytes, and has 3 now") {
		t.Errorf("truncated: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is a directory: only a regular file can be copied") {
		t.Errorf("a directory: %v", err)
	}
}
