package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/probe"
	"github.com/gantry-rdma/gantry/samples"
)

// rocePort is the UDP port of RoCEv2 (IBTA Vol 1, annex A17).
const rocePort = 4791

// wantBuffer is the socket buffer that carries a window of packets of 4 KiB
// for many queue pairs without loss.
const wantBuffer = 4 << 20

// examine carries out all checks.
func examine() []check {
	s := probe.Local()
	return []check{
		checkKernel(s), checkCPUs(s, runtime.GOMAXPROCS(0)),
		checkEngine(), checkNotification(), checkFaults(),
		checkMemfd(), checkChannel(), checkMemlock(), checkHugePages(s),
		checkPort(s, "udp_4791_ipv4", "127.0.0.1"), checkPort(s, "udp_4791_ipv6", "::1"), checkRXE(s),
		checkBuffers(s),
		checkOffload("udp_gso", "one send becomes many packets", probe.UDPSegment()),
		checkOffload("udp_gro", "many packets arrive as one piece", probe.UDPReceive()),
		checkNetwork(s),
	}
}

func checkKernel(s probe.System) check {
	k := check{Name: "kernel", OK: runtime.GOOS == "linux"}
	k.Detail = strings.TrimSpace(fmt.Sprintf("%s %s", runtime.GOOS, s.Release())) + " on " + runtime.GOARCH
	if !k.OK {
		k.Advice = "Linux is where all of Gantry runs: elsewhere there is no pollable descriptor and no shareable memory"
	}
	return k
}

func checkCPUs(s probe.System, procs int) check {
	k := check{Name: "cpus", OK: procs > 1, Detail: fmt.Sprintf("%d CPUs, GOMAXPROCS %d", runtime.NumCPU(), procs)}
	if !k.OK {
		k.Advice = "with one CPU a polling program and an executor take turns: use the inline executor, or event mode"
	}
	quota, limited := s.CPUQuota()
	if !limited {
		return k
	}
	k.Detail += fmt.Sprintf(", the control group allows %.2g", quota)
	if fit := int(math.Ceil(quota)); procs > fit {
		k.OK = false
		k.Advice = fmt.Sprintf("threads beyond the quota are stopped together, for milliseconds: set GOMAXPROCS=%d", fit)
	}
	return k
}

// checkEngine runs the first sample: devices, memory, tasks and the engine.
func checkEngine() check {
	k := check{Name: "dma_copy", Required: true}
	first := samples.List()[0] // the plainest
	r, err := first.Run(nil, io.Discard, io.Discard)
	k.OK = err == nil && r.OK
	k.Detail = fmt.Sprintf("the sample %s copied memory with %d tasks, %d succeeded", first.Name, r.Tasks, r.Completed)
	if !k.OK {
		k.Detail += fmt.Sprintf(": %v", err)
		k.Advice = fmt.Sprintf("run \"gantry sample %s\" to see where it stops, and report it", first.Name)
	}
	return k
}

func checkNotification() check {
	k := check{Name: "notification", Required: runtime.GOOS == "linux"}
	e, err := core.NewEngine()
	if err == nil {
		_, err = e.FD()
		err = errors.Join(err, e.Destroy())
	}
	k.OK, k.Detail = err == nil, "epoll, eventfd and timerfd give an engine its descriptor"
	if err != nil {
		k.Detail = fmt.Sprintf("an engine has no descriptor: %v", err)
		k.Advice = "poll with Progress instead; on Linux, look at the limit of open files (ulimit -n) and at seccomp rules"
	}
	return k
}

func checkFaults() check {
	err := probe.FaultSafeCopy()
	k := check{Name: "fault_safe_copy", Required: runtime.GOOS == "linux", OK: err == nil,
		Detail: "reading a mapped page that is gone is an error, and not the end"}
	if err != nil {
		k.Detail = err.Error()
		k.Advice = "map only files that nobody shortens meanwhile; on Linux, look at the limit of open files (ulimit -n)"
	}
	return k
}

func checkMemfd() check {
	err := probe.Memfd()
	k := check{Name: "memfd", OK: err == nil, Detail: "memory for other processes can be had, and sealed"}
	if err != nil {
		k.Detail = fmt.Sprintf("no memory that other processes could map: %v", err)
		k.Advice = "memory stays inside the process; on Linux, allow memfd_create in the seccomp rules of the container"
	}
	return k
}

// checkChannel takes a name, and reaches who has it, as Comch and exported memory
// do.
func checkChannel() check {
	k := check{Name: "other_processes", Detail: "they meet in the directory " + ipc.Directory()}
	err := meetMyself(fmt.Sprintf("gantry doctor %d", os.Getpid()))
	if k.OK = err == nil; !k.OK {
		k.Detail = fmt.Sprintf("no other process can be met: %v", err)
		k.Advice = "Comch and exported memory stay inside the process: set GANTRY_RUNTIME_DIR to a directory of your own, which containers can share"
	}
	return k
}

// meetMyself sends a message to a name that it has taken.
func meetMyself(name string) error {
	l, err := ipc.Listen(name)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := ipc.Dial(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(c.Send([]byte{1}), c.Close())
}

// checkMemlock never warns: software devices lock no memory.
func checkMemlock() check {
	k := check{Name: "memlock", OK: true}
	limit, err := probe.Memlock()
	switch size := sizeFlag(min(limit, math.MaxInt64)); {
	case err != nil:
		k.Detail = "there is no limit to ask for"
	case limit == math.MaxUint64:
		k.Detail = "no limit"
	default:
		k.Detail = size.String() + " may be locked; Gantry locks none, RDMA hardware needs what it registers (ulimit -l)"
	}
	return k
}

func checkHugePages(s probe.System) check {
	k := check{Name: "huge_pages"}
	got, err := probe.HugePage()
	total, free, known := s.HugePages()
	k.OK = got && err == nil
	switch {
	case k.OK:
		k.Detail = fmt.Sprintf("%d of %d are free", free, total)
	case known:
		k.Detail = fmt.Sprintf("none to be had (%d of %d are free): maps that ask for them get ordinary pages", free, total)
		k.Advice = "for large maps: sudo sysctl vm.nr_hugepages=128"
	default:
		k.Detail = "not on this system: maps that ask for them get ordinary pages"
	}
	return k
}

func checkPort(s probe.System, name, host string) check {
	k := check{Name: name}
	addr := &net.UDPAddr{IP: net.ParseIP(host), Port: rocePort}
	conn, err := net.ListenUDP("udp", addr)
	if err == nil {
		err = conn.Close()
	}
	if k.OK = err == nil; k.OK {
		k.Detail = fmt.Sprintf("%v can be bound", addr)
		return k
	}
	k.Detail = err.Error()
	k.Advice = fmt.Sprintf("RoCE on %s needs this port, copies do not", host)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		k.Advice += ": bring the interface lo up, and enable IPv6 for an IPv6 address"
	}
	if h := s.HoldersOfUDP(rocePort); len(h) > 0 {
		k.Detail += "; " + holders(h, s.Module("rdma_rxe"))
		k.Advice += ": stop who has it, or use another address"
	}
	return k
}

// holders says who has the port.
func holders(found []probe.Holder, rxe bool) string {
	var who []string
	for _, h := range found {
		switch {
		case h.PID > 0:
			who = append(who, fmt.Sprintf("process %d (%s) has it", h.PID, h.Name))
		case rxe:
			who = append(who, "the kernel's rdma_rxe seems to have it")
		default:
			who = append(who, "a process of another user, or the kernel, has it")
		}
	}
	return strings.Join(who, ", ")
}

func checkRXE(s probe.System) check {
	k := check{Name: "rdma_rxe", OK: true, Detail: "the kernel's RoCE is not loaded"}
	if !s.Module("rdma_rxe") {
		return k
	}
	k.Detail = "the kernel's RoCE is loaded, and has no socket on UDP port 4791 here"
	if h := s.HoldersOfUDP(rocePort); len(h) > 0 {
		k.OK = false
		k.Detail = "the kernel's RoCE is loaded, and of UDP port 4791 it holds: " + holders(h, true)
		k.Advice = "remove its links (rdma link delete NAME) or the module (sudo modprobe -r rdma_rxe), or use another network namespace"
	}
	return k
}

func checkBuffers(s probe.System) check {
	k := check{Name: "socket_buffers"}
	receive, send, known := s.SocketBuffers()
	if !known {
		k.Detail = "the limits of this system cannot be read"
		return k
	}
	r, w := sizeFlag(receive), sizeFlag(send)
	k.OK = min(receive, send) >= wantBuffer
	k.Detail = fmt.Sprintf("at most %v to receive, %v to send", &r, &w)
	if !k.OK {
		k.Advice = fmt.Sprintf("fast RoCE overflows small buffers: sudo sysctl net.core.rmem_max=%d net.core.wmem_max=%[1]d", wantBuffer)
	}
	return k
}

func checkOffload(name, what string, err error) check {
	k := check{Name: name, OK: err == nil, Detail: what + ", tried on loopback"}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		k.Detail = "not on this system: one system call per packet"
	case err != nil:
		k.Detail = err.Error()
		k.Advice = "RoCE works without, one system call per packet; Linux has it since 5.0, where the interface lo is up"
	}
	return k
}

// checkNetwork looks for what rewrites packets on their way to other machines.
func checkNetwork(s probe.System) check {
	var found []string
	if kind := s.Container(); kind != "" {
		found = append(found, "a container ("+kind+")")
	}
	if names := s.Overlays(); len(names) > 0 {
		found = append(found, "bridges or tunnels ("+strings.Join(names, ", ")+")")
	}
	nat, known := s.NAT()
	if nat {
		found = append(found, "an iptables NAT table")
	}
	k := check{Name: "network", OK: len(found) == 0, Detail: "no container, bridge, tunnel or NAT was seen"}
	if !k.OK {
		k.Detail = "there is " + list(found, "and")
		k.Advice = "between machines, NAT that rewrites ports or addresses breaks RoCE: use the host's network, or addresses that both ends see alike"
	}
	if !known {
		k.Detail += "; NAT rules cannot be read by this user, or are nftables'"
	}
	return k
}
