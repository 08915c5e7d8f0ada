package perf

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-rdma/gantry/core"
)

// allowedCPUs returns the CPUs that this process may use, lowest first.
func allowedCPUs() (cpus []int, all unix.CPUSet, err error) {
	if err = unix.SchedGetaffinity(0, &all); err != nil {
		return nil, all, fmt.Errorf("read the allowed CPUs: %w: %w", core.ErrOperatingSystem, err)
	}
	for i := 0; len(cpus) < all.Count(); i++ {
		if all.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus, all, nil
}

// pinThread binds the calling thread to one CPU. Lock it first, and never
// unlock it: a thread whose goroutine ends locked ends too.
func pinThread(cpu int) error { return pin(0, only(cpu)) }

func only(cpu int) (set unix.CPUSet) {
	set.Set(cpu)
	return set
}

func pin(thread int, set unix.CPUSet) error {
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("bind a thread to its CPUs: %w: %w", core.ErrOperatingSystem, err)
	}
	return nil
}

// pinProcess binds every thread of the process. Threads that are started later
// inherit it from the one that starts them.
//
// GOMAXPROCS stays as it is from then on. The runtime would lower it to the
// number of CPUs that are left, and goroutines that are meant to run side by
// side would take turns of ten milliseconds.
func pinProcess(set unix.CPUSet) error {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // a number that was set is not changed by the runtime
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list the threads: %w: %w", core.ErrOperatingSystem, err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil && err != unix.ESRCH { // it has ended
			return fmt.Errorf("bind thread %d to its CPUs: %w: %w", id, core.ErrOperatingSystem, err)
		}
	}
	return nil
}

// cpuTime returns what the calling thread, or with unix.RUSAGE_SELF the whole
// process, has used so far.
func cpuTime(who int) time.Duration {
	var u unix.Rusage
	if unix.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// waitReadable blocks the thread in poll(2) until fd is readable. Nothing that
// is measured takes as long as its limit.
func waitReadable(fd int) error {
	set := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set[:], 60_000)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("poll: %w: %w", core.ErrOperatingSystem, err)
		case n == 0:
			return fmt.Errorf("no wake-up for a minute: %w", core.ErrTimeOut)
		default:
			return nil
		}
	}
}
