package comch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// TestProgramsOfTheDocumentRun builds the two programs of docs/comch.md from
// the text, runs them, and looks for what they print in the text too.
func TestProgramsOfTheDocumentRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds two programs")
	}
	text, err := os.ReadFile("../docs/comch.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(dir, "run"))
	serverFile, clientFile := build(t, text, dir, "server"), build(t, text, dir, "client")

	var serverSays, serverErr bytes.Buffer
	server := child.Command(t, serverFile)
	server.Stdout, server.Stderr = &serverSays, &serverErr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for tries := 1; ; tries++ {
		var says, failed bytes.Buffer
		client := child.Command(t, clientFile)
		client.Stdout, client.Stderr = &says, &failed
		err := client.Run()
		if strings.Contains(failed.String(), "nobody listens") && tries < 1000 {
			continue // the server is not there yet
		}
		if err != nil {
			t.Errorf("client: %v: %s", err, &failed)
			_ = server.Process.Kill()
		}
		printed(t, text, "client", says.String())
		break
	}
	if err := server.Wait(); err != nil {
		t.Errorf("server: %v: %s", err, &serverErr)
	}
	printed(t, text, "server", serverSays.String())
}

// build makes a program of the code blocks that begin with the name of one of
// its files, and returns where it is.
func build(t *testing.T, text []byte, dir, name string) (file string) {
	t.Helper()
	source := filepath.Join(dir, name)
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, name+".exe")
	args := []string{"build", "-o", file}
	block := regexp.MustCompile("(?s)\n```go\n// " + name + "/(\\w+\\.go)\n\n(.*?)```\n")
	for _, m := range block.FindAllSubmatch(text, -1) {
		f := filepath.Join(source, string(m[1]))
		if err := os.WriteFile(f, m[2], 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, f)
	}
	if len(args) != 5 {
		t.Fatalf("%s: found %d files, want 2", name, len(args)-3)
	}
	if out, err := child.Within(t, 5*time.Minute, "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build the %s: %v\n%s", name, err, out)
	}
	return file
}

// printed wants that the document shows what a program printed.
func printed(t *testing.T, text []byte, name, says string) {
	t.Helper()
	if !strings.Contains(string(text), "\n```text\n"+says+"```\n") {
		t.Errorf("the document does not show what the %s printed:\n%s", name, says)
	}
}
