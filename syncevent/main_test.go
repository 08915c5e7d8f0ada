package syncevent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// roles are what the test binary does when a test starts it as another
// process.
var roles = map[string]func(*peer) error{}

// TestMain gives examples, as tests have it, a rendezvous of their own.
func TestMain(m *testing.M) {
	if play, ok := roles[os.Getenv(roleVariable)]; ok {
		os.Exit(runPeer(play))
	}
	dir, err := os.MkdirTemp("", "syncevent")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(dir, "run"))
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
