package peer_test

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// inNamespace is set for the process that plays the scripts over IPv6.
const inNamespace = "GANTRY_PROBES_OVER_IPV6"

// place6 is what place is over IPv6: fd00:4791::n:1.
func place6(n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 2: 0x47, 3: 0x91, 12: byte(n >> 8), 13: byte(n), 15: 1})
}

// TestProbesOverIPv6 plays docs/probes once more. Loopback has one IPv6 address,
// so it makes a network namespace with as many as it takes.
func TestProbesOverIPv6(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		t.Skip("this is the namespace")
	}
	var batch strings.Builder
	batch.WriteString("link set lo up\nlink set left up\nlink set right up\n")
	for n := range places {
		for a, i := place6(n), 0; i < 3; a, i = a.Next(), i+1 {
			fmt.Fprintf(&batch, "addr add %v/128 dev left nodad\n", a)
		}
	}
	setUp := fmt.Sprintf(`ip link add left mtu 9000 type veth peer name right && ip addr add %v/128 dev left nodad || exit %d
ip -batch - || exit
exec "$@" </dev/null`, place6(places), child.Unprepared)
	c := child.Within(t, 2*time.Minute, "sh", "-c", setUp, "sh", os.Args[0], "-test.parallel="+strconv.Itoa(places))
	c.Stdin = strings.NewReader(batch.String())
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	child.Test(t, c, "TestProbes")
}
