package link

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// inNamespace is set for the process that has a network namespace of its own.
const inNamespace = "GANTRY_LINK_IN_NAMESPACE"

// An IPv6 address that was added a moment ago can be bound to, and what is sent
// to it is lost, until the system has added the route to it: for half a second
// on a busy machine.
func TestWhatIsSentToALinkThatIsOpenArrives(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		t.Skip("this is the namespace")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	c := child.Command(t, os.Args[0])
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	child.Test(t, c, "TestALateRoute", "nothing is delivered to", "the route does not go away", "the system says nothing of")
}

// TestALateRoute is what the test above does in its namespace: it takes the route
// away, and gives it back while a link is being opened.
func TestALateRoute(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("this is not the namespace")
	}
	a, b := netip.MustParseAddr("fd00:61::1"), netip.MustParseAddr("fd00:61::2")
	ip(t, "link", "set", "lo", "up")
	for _, addr := range []netip.Addr{a, b} {
		ip(t, "addr", "add", addr.String()+"/128", "dev", "lo", "nodad")
		if !delivers(t, addr, limit) {
			t.Skipf("nothing is delivered to %v", addr)
		}
	}
	from, err := ListenUDP(UDPConfig{Addr: a})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()

	route := []string{"-6", "route", "del", "local", b.String(), "dev", "lo", "table", "local"}
	if ip(t, route...); delivers(t, b, 0) {
		t.Skip("the route does not go away")
	}
	added := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() {
		defer close(added)
		route[2] = "add"
		ip(t, route...)
	})
	to, err := ListenUDP(UDPConfig{Addr: b})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	here := delivers(t, b, 0)
	if <-added; !here {
		t.Fatal("the link was open before anything could arrive")
	}
	var pool sendPool
	sendAll(t, from, to, []*frame.Frame{pool.frame(to.Local(), 0, 1, 1)}, func(f *frame.Frame) {
		if bad := intact(f, 0, 1); bad != "" {
			t.Error(bad)
		}
	})
}

func ip(t *testing.T, args ...string) {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func delivers(t *testing.T, a netip.Addr, patience time.Duration) bool {
	here, err := sys.AwaitDelivery(a, patience)
	if err != nil {
		t.Skipf("the system says nothing of %v: %v", a, err)
	}
	return here
}
