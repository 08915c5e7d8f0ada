package probe

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// A System is where the kernel tells about itself: the folders proc and sys of
// a Linux machine. What is not there is not known, so on another system every
// answer is "not known". Its methods only read, and may be called from any
// goroutine.
type System struct {
	files fs.FS
}

// Local is the machine that this program runs on.
func Local() System { return System{os.DirFS("/")} }

// In is a machine whose root folder is files.
func In(files fs.FS) System { return System{files} }

// text returns the contents of a small file, or "".
func (s System) text(name string) string {
	b, err := fs.ReadFile(s.files, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the number that a file holds.
func (s System) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s.text(name), 10, 64)
	return n, err == nil
}

func (s System) exists(name string) bool {
	_, err := fs.Stat(s.files, name)
	return err == nil
}

// Release returns the release of the kernel, such as "6.8.0-41-generic", or "".
func (s System) Release() string { return s.text("proc/sys/kernel/osrelease") }

// Module reports whether a kernel module is loaded, or built into the kernel.
func (s System) Module(name string) bool { return s.exists(path.Join("sys/module", name)) }

// SocketBuffers returns the largest receive and send buffer in bytes that a
// program may ask for without rights.
func (s System) SocketBuffers() (receive, send int64, ok bool) {
	receive, knowsReceive := s.number("proc/sys/net/core/rmem_max")
	send, knowsSend := s.number("proc/sys/net/core/wmem_max")
	return receive, send, knowsReceive && knowsSend
}

// HugePages returns how many huge pages of the default size are set aside, and
// how many of them nobody uses.
func (s System) HugePages() (total, free int64, ok bool) {
	b, err := fs.ReadFile(s.files, "proc/meminfo")
	if err != nil {
		return 0, 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		switch {
		case err == nil && f[0] == "HugePages_Total:":
			total, ok = n, true
		case err == nil && f[0] == "HugePages_Free:":
			free = n
		}
	}
	return total, free, ok
}

// CPUQuota returns how many CPUs' worth of time the control groups of this
// process leave it, where there is such a limit.
func (s System) CPUQuota() (cpus float64, limited bool) {
	for line := range strings.Lines(s.text("proc/self/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[1] == "":
			cpus, limited = least(cpus, limited, s.quotas("sys/fs/cgroup", f[2], s.quotaV2))
		case strings.Contains(","+f[1]+",", ",cpu,"):
			cpus, limited = least(cpus, limited, s.quotas("sys/fs/cgroup/cpu", f[2], s.quotaV1))
		}
	}
	return cpus, limited
}

// least returns the smaller of a limit and what may be one (0 is none).
func least(cpus float64, limited bool, other float64) (float64, bool) {
	if other > 0 && (!limited || other < cpus) {
		return other, true
	}
	return cpus, limited
}

// quotas returns the smallest quota from a control group up to the root of its
// hierarchy, or 0. In a container the group's own path is often not visible,
// and its quota stands at the root.
func (s System) quotas(mount, group string, of func(dir string) float64) (smallest float64) {
	limited := false
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		smallest, limited = least(smallest, limited, of(path.Join(mount, dir)))
		if dir == "/" {
			return smallest
		}
	}
}

// quotaV2 reads "QUOTA PERIOD" in microseconds; a QUOTA of "max" is none.
func (s System) quotaV2(dir string) float64 {
	quota, period, _ := strings.Cut(s.text(path.Join(dir, "cpu.max")), " ")
	return ratio(quota, period)
}

// quotaV1 reads the same from two files; a quota of -1 is none.
func (s System) quotaV1(dir string) float64 {
	return ratio(s.text(path.Join(dir, "cpu.cfs_quota_us")), s.text(path.Join(dir, "cpu.cfs_period_us")))
}

func ratio(quota, period string) float64 {
	q, errQ := strconv.ParseFloat(quota, 64)
	p, errP := strconv.ParseFloat(period, 64)
	if errQ != nil || errP != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}
