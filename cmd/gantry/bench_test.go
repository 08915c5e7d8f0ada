package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"testing"
)

// TestBenchPEPrintsEveryMode is no script because it needs two CPUs.
func TestBenchPEPrintsEveryMode(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.NumCPU() < 2 {
		t.Skip("the modes of waiting are measured on Linux with two CPUs")
	}
	var out, errOut bytes.Buffer
	if code := run([]string{"bench", "pe", "-D", "10ms", "--json"}, &out, &errOut); code != exitGood {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	var doc struct{ Modes []map[string]any }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	modes := []string{"poll", "event", "run"}
	rates := []float64{1000, 30_000, 200_000}
	if len(doc.Modes) != len(modes)*len(rates) {
		t.Fatalf("%d modes, want %d: %s", len(doc.Modes), len(modes)*len(rates), out.String())
	}
	for i, m := range doc.Modes {
		if m["mode"] != modes[i%3] || m["rate"] != rates[i/3] {
			t.Errorf("number %d is %v at %v, want %v at %v", i, m["mode"], m["rate"], modes[i%3], rates[i/3])
		}
		for _, key := range []string{"achieved", "cpu_percent", "p50_us", "p99_us"} {
			if _, ok := m[key].(float64); !ok {
				t.Errorf("number %d has no %s", i, key)
			}
		}
	}
}
