package perf

import (
	"context"
	"testing"
	"time"
)

// BenchmarkWorkloads does what the command is measured with. `make profile` writes
// from it the profile that the command is built with: see decision 0012.
func BenchmarkWorkloads(b *testing.B) {
	for _, c := range []struct {
		name string
		d    RCDevice
		test RCTest
	}{
		{"send_lat/memory", fabrics[0], workload("send_lat", 64, 1, "inline", "RC")},
		{"send_bw/memory", fabrics[0], workload("send_bw", 64, 1, "inline", "RC")},
		{"send_bw/memory/q=16/workqueue", fabrics[0], workload("send_bw", 64, 16, "workqueue", "RC")},
		{"send_lat/udp", fabrics[1], workload("send_lat", 64, 1, "inline", "RC")},
		{"send_bw/udp", fabrics[1], workload("send_bw", 64, 1, "inline", "RC")},
		{"write_bw/udp", fabrics[1], workload("write_bw", 1<<16, 1, "inline", "RC")},
		{"read_bw/udp", fabrics[1], workload("read_bw", 1<<16, 1, "inline", "RC")},
		{"send_bw/udp/UD", fabrics[1], workload("send_bw", 1024, 1, "inline", "UD")},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				if _, err := MeasureRC(context.Background(), c.test, RCRun{Duration: 200 * time.Millisecond, Device: c.d}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// workload returns a test as the command has it.
func workload(op string, size, qps int, executor, transport string) RCTest {
	t := NewRCTest(op)
	t.Size, t.QPs, t.Executor, t.Transport = size, qps, executor, transport
	t.Fill()
	return t
}
