//go:build linux

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
	"github.com/gantry-rdma/gantry/test/interop/kit"
)

// The tests run only when asked, since they download and take minutes:
// GANTRY_INTEROP is "full", "short" (a choice of rows, with one kernel, and no
// failure where there can be no peer), or a kernel of kit.Kernels.
var mode = os.Getenv("GANTRY_INTEROP")

var (
	outFlag    = flag.String("interop.out", "", "folder for captures; default: a temporary one, removed at the end")
	reportFlag = flag.String("interop.report", "", "file for the report")
)

// images are built before the process has a network of its own.
var images = map[string]*kit.Image{}

// wantedKernels are those to run with.
func wantedKernels() []string {
	switch {
	case mode == "full":
		return kit.Kernels
	case slices.Contains(kit.Kernels, mode):
		return []string{mode}
	}
	return kit.Kernels[1:]
}

func TestMain(m *testing.M) {
	flag.Parse()
	if mode == "" {
		os.Exit(m.Run())
	}
	status, err := outside(m)
	if errors.Is(err, kit.ErrCannot) && mode == "short" {
		fmt.Println("interop: NOT RUN:", err)
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

// outside prepares what needs the machine's network, and enters another one.
func outside(m *testing.M) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := kit.Possible(); err != nil {
		return 0, err
	}
	for _, k := range wantedKernels() {
		begin := time.Now()
		image, err := kit.Build(ctx, ".", k)
		if err != nil {
			return 0, err
		}
		images[k] = image
		if !kit.Inside() {
			fmt.Printf("interop: image with Linux %s in %.1f s\n", image.Release, time.Since(begin).Seconds())
		}
	}
	if !kit.Inside() {
		if err := buildGantry(ctx); err != nil {
			return 0, err
		}
		return kit.Enter(ctx)
	}
	return m.Run(), nil
}

// gantry is where the command is built.
func gantry() string {
	cache, err := kit.Cache()
	if err != nil {
		panic(err) // Build has asked before
	}
	return filepath.Join(cache, "gantry")
}

func buildGantry(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	out, err := child.Until(ctx, "go", "build", "-o", gantry(), "../../cmd/gantry").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build gantry: %w: %s", err, out)
	}
	return nil
}
