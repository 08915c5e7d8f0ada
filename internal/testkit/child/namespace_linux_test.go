package child

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A system that refuses a namespace has no place for a test. A program that is
// not there is no such case.
func TestANamespaceThatIsRefused(t *testing.T) {
	w := &witness{TB: t}
	c := Command(w, os.Args[0])
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_FS} // which no kernel gives together
	Test(w, c, "TestInner")
	w.want("", "no namespace for TestInner here", "refused")

	w = &witness{TB: t}
	c = Command(w, filepath.Join(t.TempDir(), "nothing"))
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	if Test(w, c, "TestInner"); w.skips.Len() > 0 {
		t.Skip(w.skips.String())
	}
	w.want("TestInner was not started", "", "no program")
}
