package comch

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// TestMain gives the tests names of their own, and plays the other process in
// those that need one.
func TestMain(m *testing.M) {
	if runtime.GOOS != "linux" {
		fmt.Println("there is no shared memory to test on", runtime.GOOS)
		return
	}
	if role := os.Getenv("COMCH_TEST_ROLE"); role != "" {
		os.Exit(play(role))
	}
	dir, err := os.MkdirTemp("", "comch")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("GANTRY_RUNTIME_DIR", dir)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
