package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// What make a run longer, or like an earlier one.
var (
	long = flag.Int("long", 1, "do everything so many times as often")
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of everything that is random")
)

// roleVariable says what the test program is when a test starts it again.
const roleVariable = "GANTRY_FAULTS_ROLE"

// roles are what it can be. They return when their standard input ends, or
// when they are through.
var roles = map[string]func() error{}

// program is the path of the built command.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if play, ok := roles[os.Getenv(roleVariable)]; ok {
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(runTests(m))
}

// atOnce is how many parallel tests run at a time unless the command line says
// it. They wait most of their time, so it is more than there are CPUs.
const atOnce = "6"

func runTests(m *testing.M) int {
	if runtime.GOOS != "linux" {
		fmt.Println("there is no memory that processes share on", runtime.GOOS)
		return 0
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "gantry")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	build := child.Until(ctx, "go", "build", "-o", program, "../../cmd/gantry")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the command: %v\n%s", err, out)
		return 1
	}
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fmt.Println("-seed", *seed)
	return m.Run()
}
