package perf

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Setup says where figures come from: they mean little without it.
type Setup struct {
	Command    string    `json:"command"`    // the command line
	Version    string    `json:"version"`    // of Gantry
	CPU        string    `json:"cpu"`        // the model
	Cores      int       `json:"cores"`      // that the process may use
	GOMAXPROCS int       `json:"gomaxprocs"` // goroutines that run at once
	Kernel     string    `json:"kernel"`     // name and release
	Go         string    `json:"go"`         // version, system and processor
	Date       time.Time `json:"date"`       // in UTC, to the second
	Load       float64   `json:"load_1m"`    // of the machine before: above 0.5 somebody else is at work
}

// ReadSetup describes this machine. The command line and the version are the
// caller's to know. What the system does not tell is "unknown".
func ReadSetup(command []string, version string) Setup {
	return Setup{
		Command:    strings.Join(command, " "),
		Version:    version,
		CPU:        cpuModel(),
		Cores:      runtime.NumCPU(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Kernel:     kernel(),
		Go:         runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Date:       time.Now().UTC().Truncate(time.Second),
		Load:       load(),
	}
}

const unknown = "unknown"

// cpuModel reads the first name of a processor from /proc/cpuinfo. Processors
// that have no name there, as many of arm64, have numbers.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	for _, key := range []string{"model name", "Model", "CPU part"} {
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(line, ":")
			if ok && strings.TrimSpace(name) == key {
				return strings.TrimSpace(value)
			}
		}
	}
	return unknown
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return unknown
	}
	return "Linux " + strings.TrimSpace(string(release))
}

// load returns the mean number of runnable threads of the last minute.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(first, 64) // what is no number is as good as unknown
	return v
}
