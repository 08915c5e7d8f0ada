package probe

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// machine makes a System of files, given as path, contents, path, contents.
// Contents that begin with an arrow make a symbolic link.
func machine(files ...string) System {
	m := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		f := &fstest.MapFile{Data: []byte(files[i+1])}
		if target, is := cutArrow(files[i+1]); is {
			f.Data, f.Mode = []byte(target), fs.ModeSymlink
		}
		m[files[i]] = f
	}
	return In(m)
}

func cutArrow(s string) (string, bool) {
	if len(s) > 2 && s[:2] == "->" {
		return s[2:], true
	}
	return s, false
}

func TestCPUQuotaIsTheSmallestOnTheWayUp(t *testing.T) {
	const max = "max 100000"
	for _, c := range []struct {
		name    string
		s       System
		cpus    float64
		limited bool
	}{
		{"nothing known", machine(), 0, false},
		{"version 2", machine("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.max", "150000 100000\n"), 1.5, true},
		{"version 2, none", machine("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.max", max), 0, false},
		{"the parent's is smaller", machine("proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max", "400000 100000",
			"sys/fs/cgroup/a/cpu.max", "200000 100000", "sys/fs/cgroup/cpu.max", max), 2, true},
		{"the group is not visible", machine("proc/self/cgroup", "0::/docker/77\n", "sys/fs/cgroup/cpu.max", "50000 100000"), 0.5, true},
		{"version 1", machine("proc/self/cgroup", "4:cpu,cpuacct:/a\n1:memory:/\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000"), 3, true},
		{"version 1, none", machine("proc/self/cgroup", "4:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"), 0, false},
		{"cpuacct is not cpu", machine("proc/self/cgroup", "4:cpuacct,cpuset:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000", "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"), 0, false},
		{"nonsense", machine("proc/self/cgroup", "0::/\nx\n", "sys/fs/cgroup/cpu.max", "1 0"), 0, false},
	} {
		if cpus, limited := c.s.CPUQuota(); cpus != c.cpus || limited != c.limited {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, cpus, limited, c.cpus, c.limited)
		}
	}
}

func TestNumbersThatAreNotThereAreNotKnown(t *testing.T) {
	s := machine()
	if _, _, ok := s.SocketBuffers(); ok {
		t.Error("socket buffers are known")
	}
	if _, _, ok := s.HugePages(); ok {
		t.Error("huge pages are known")
	}
	if _, _, ok := machine("proc/sys/net/core/rmem_max", "1").SocketBuffers(); ok {
		t.Error("one of two limits is enough")
	}
	if _, _, ok := machine("proc/meminfo", "MemTotal: 12 kB\n").HugePages(); ok {
		t.Error("huge pages are known from a kernel without them")
	}
	if got := s.Release(); got != "" {
		t.Errorf("the release is %q", got)
	}
}

func TestNumbersAreRead(t *testing.T) {
	s := machine(
		"proc/sys/net/core/rmem_max", "212992\n", "proc/sys/net/core/wmem_max", "4194304\n",
		"proc/meminfo", "MemTotal:   12 kB\nHugePages_Total:      8\nHugePages_Free:        3\nHugePages_Rsvd: 1\n",
		"proc/sys/kernel/osrelease", "6.8.0\n", "sys/module/rdma_rxe/refcnt", "0",
	)
	if receive, send, ok := s.SocketBuffers(); receive != 212992 || send != 4194304 || !ok {
		t.Errorf("socket buffers: %d, %d, %v", receive, send, ok)
	}
	if total, free, ok := s.HugePages(); total != 8 || free != 3 || !ok {
		t.Errorf("huge pages: %d, %d, %v", total, free, ok)
	}
	if got := s.Release(); got != "6.8.0" {
		t.Errorf("the release is %q", got)
	}
	if !s.Module("rdma_rxe") || s.Module("siw") {
		t.Error("the wrong module is loaded")
	}
}

// What the kernel prints: address and port in hexadecimal, the inode tenth.
const (
	udpHeader = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
	roceInV4  = "  100: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4242 2 0000000000000000 0\n"
	dnsInV4   = "  101: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4243 2 0000000000000000 0\n"
	toRoCE    = "  102: 0100007F:C000 0100007F:12B7 01 00000000:00000000 00:00000000 00000000     0        0 4244 2 0000000000000000 0\n"
	roceInV6  = "  103: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4245 2 0 0\n"
)

func TestHoldersOfAPortAreFoundByTheirSockets(t *testing.T) {
	processes := []string{
		"proc/77/comm", "gantry\n", "proc/77/fd/3", "->socket:[4242]", "proc/77/fd/4", "->socket:[4243]",
		"proc/78/comm", "other\n", "proc/78/fd/3", "->socket:[4244]", "proc/78/fd/4", "->socket:[42]",
	}
	for _, c := range []struct {
		name   string
		v4, v6 string
		want   []Holder
	}{
		{"nobody", udpHeader + dnsInV4 + toRoCE, udpHeader, nil},
		{"a process", udpHeader + dnsInV4 + roceInV4 + toRoCE, udpHeader, []Holder{{77, "gantry"}}},
		{"the kernel", udpHeader, udpHeader + roceInV6, []Holder{{}}},
		{"both", udpHeader + roceInV4 + roceInV4, udpHeader + roceInV6, []Holder{{77, "gantry"}, {}}},
		{"nonsense", "x\n1: 2 3 4 5 6 7 8 9 10 11\n", "", nil},
	} {
		s := machine(append(processes, "proc/net/udp", c.v4, "proc/net/udp6", c.v6)...)
		if diff := cmp.Diff(c.want, s.HoldersOfUDP(4791)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

func TestContainersAndOverlaysAreRecognised(t *testing.T) {
	for want, s := range map[string]System{
		"":           machine("proc/1/cgroup", "0::/init.scope\n"),
		"Docker":     machine(".dockerenv", ""),
		"Podman":     machine("run/.containerenv", ""),
		"Kubernetes": machine(".dockerenv", "", "run/secrets/kubernetes.io/serviceaccount/token", ""),
		"lxc":        machine("proc/1/cgroup", "0::/lxc/a\n"),
	} {
		if got := s.Container(); got != want {
			t.Errorf("the container is %q, want %q", got, want)
		}
	}
	s := machine(
		"sys/class/net/eth0/uevent", "INTERFACE=eth0\n", "sys/class/net/lo/mtu", "65536",
		"sys/class/net/mine/uevent", "DEVTYPE=vxlan\nINTERFACE=mine\n", "sys/class/net/flannel.1/mtu", "1450",
	)
	if diff := cmp.Diff([]string{"flannel.1", "mine"}, s.Overlays()); diff != "" {
		t.Errorf("overlays:\n%s", diff)
	}
	if got := machine().Overlays(); got != nil {
		t.Errorf("overlays of nothing: %v", got)
	}
}

func TestNATIsOnOffOrNotKnown(t *testing.T) {
	const file = "proc/net/ip_tables_names"
	for _, c := range []struct {
		s         System
		on, known bool
	}{{machine(), false, false}, {machine(file, "filter\n"), false, true}, {machine(file, "mangle\nnat\n"), true, true}} {
		if on, known := c.s.NAT(); on != c.on || known != c.known {
			t.Errorf("NAT: %v, %v, want %v, %v", on, known, c.on, c.known)
		}
	}
}
