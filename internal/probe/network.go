package probe

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Holder is who has a UDP port.
type Holder struct {
	PID  int    // 0 when no process is known that has the socket
	Name string // of the process, "" when not known
}

// HoldersOfUDP returns who has sockets on a UDP port, in this network namespace.
// Without rights the processes of other users are not known; the kernel's own
// sockets belong to no process.
func (s System) HoldersOfUDP(port uint16) (found []Holder) {
	var inodes []string
	for _, table := range []string{"proc/net/udp", "proc/net/udp6"} {
		for line := range strings.Lines(s.text(table)) {
			// sl local:port remote:port st tx:rx tr:when retrnsmt uid timeout inode
			f := strings.Fields(line)
			if len(f) < 10 {
				continue
			}
			_, digits, _ := strings.Cut(f[1], ":")
			if b, err := hex.DecodeString(digits); err == nil && len(b) == 2 && uint16(b[0])<<8|uint16(b[1]) == port {
				inodes = append(inodes, f[9])
			}
		}
	}
	for _, inode := range inodes {
		if h := s.holder(inode); !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	return found
}

// holder finds the process that has a socket open.
func (s System) holder(inode string) Holder {
	links, err := fs.Glob(s.files, "proc/[0-9]*/fd/*")
	if err != nil {
		return Holder{}
	}
	for _, l := range links {
		target, err := fs.ReadLink(s.files, l)
		if err != nil || target != "socket:["+inode+"]" {
			continue
		}
		process := path.Dir(path.Dir(l))
		pid, _ := strconv.Atoi(path.Base(process))
		return Holder{pid, s.text(path.Join(process, "comm"))}
	}
	return Holder{}
}

// Container returns what kind of container this is, or "" for none known.
func (s System) Container() string {
	switch {
	case s.exists("run/secrets/kubernetes.io"):
		return "Kubernetes"
	case s.exists("run/.containerenv"):
		return "Podman"
	case s.exists(".dockerenv"):
		return "Docker"
	}
	for _, word := range []string{"kubepods", "docker", "containerd", "lxc"} {
		if strings.Contains(s.text("proc/1/cgroup"), word) {
			return word
		}
	}
	return ""
}

// overlays are the beginnings of the names that bridges and tunnels usually
// have, for interfaces that do not tell their type.
var overlays = []string{"cni", "flannel", "cilium", "cali", "weave", "docker", "br-", "vxlan", "geneve", "wg", "tun", "tap", "zt", "tailscale"}

// Overlays returns the network interfaces that are bridges or tunnels: packets
// through them are wrapped, filtered or rewritten on their way.
func (s System) Overlays() (names []string) {
	entries, err := fs.ReadDir(s.files, "sys/class/net")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		kind := s.value(path.Join("sys/class/net", e.Name(), "uevent"), "DEVTYPE=")
		known := slices.Contains([]string{"bridge", "vxlan", "geneve", "wireguard", "gre", "ipip"}, kind)
		if known || slices.ContainsFunc(overlays, func(o string) bool { return strings.HasPrefix(e.Name(), o) }) {
			names = append(names, e.Name())
		}
	}
	return names
}

// value returns the rest of the line of a file that begins with key.
func (s System) value(name, key string) string {
	for lines := bufio.NewScanner(bytes.NewReader([]byte(s.text(name)))); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), key); ok {
			return v
		}
	}
	return ""
}

// NAT reports whether the kernel rewrites addresses with iptables rules of this
// network namespace. Only the superuser may know; for others, and where
// nftables is used, known is false.
func (s System) NAT() (on, known bool) {
	b, err := fs.ReadFile(s.files, "proc/net/ip_tables_names")
	return slices.Contains(strings.Fields(string(b)), "nat"), err == nil
}
