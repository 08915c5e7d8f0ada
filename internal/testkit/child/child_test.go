package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes this test program a process that never ends, or ends
// without a test.
const roleVariable = "CHILD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "deaf":
		signal.Ignore(syscall.SIGQUIT)
		hang()
	case "hangs":
		hang()
	case "counts":
		count()
	case "silent":
		os.Exit(0)
	case "unprepared":
		os.Exit(Unprepared)
	}
	os.Exit(m.Run())
}

func hang() {
	<-time.After(time.Hour)
}

// count says numbers, as fast as they are read.
func count() {
	for i := 0; ; i++ {
		if _, err := fmt.Println(i); err != nil {
			os.Exit(1)
		}
	}
}

// A witness is a test whose failures are wanted, and goes on when it is skipped.
type witness struct {
	testing.TB
	said, skips strings.Builder
}

func (w *witness) Errorf(format string, args ...any) { fmt.Fprintf(&w.said, format, args...) }
func (w *witness) Skipf(format string, args ...any)  { fmt.Fprintf(&w.skips, format, args...) }
func (w *witness) Skip(args ...any)                  { fmt.Fprint(&w.skips, args...) }
func (w *witness) Logf(string, ...any)               {}

func play(t testing.TB, role string, d time.Duration) (c *exec.Cmd, says *bytes.Buffer) {
	says = new(bytes.Buffer)
	c = Within(t, d, os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), roleVariable+"="+role), says
	return c, says
}

func TestAProcessThatHangsSaysWhere(t *testing.T) {
	w := &witness{TB: t}
	c, says := play(w, "hangs", 300*time.Millisecond)
	begin := time.Now()
	if err := c.Run(); err == nil {
		t.Error("no error")
	}
	if took := time.Since(begin); took > life/2 {
		t.Errorf("it took %v", took)
	}
	if !hung.Swap(false) {
		t.Error("the next one has as much time")
	}
	if !strings.Contains(w.said.String(), "has to end") {
		t.Errorf("the test has not failed: %q", &w.said)
	}
	if runtime.GOOS != "windows" && !strings.Contains(says.String(), "child.hang(") {
		t.Errorf("no stack in %q", says)
	}
}

func TestAProcessThatIsDeafIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 3 seconds")
	}
	c, _ := play(&witness{TB: t}, "deaf", time.Second)
	if err := c.Run(); err == nil {
		t.Error("no error")
	}
}

func TestAProcessEndsWithItsTest(t *testing.T) {
	var c *exec.Cmd
	t.Run("a test", func(t *testing.T) {
		c, _ = play(t, "hangs", life)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	})
	if err := c.Process.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("it lives: %v", err)
	}
}
