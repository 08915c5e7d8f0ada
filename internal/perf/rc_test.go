package perf

import (
	"fmt"
	"testing"
)

func TestRCEveryOperation(t *testing.T) {
	for _, op := range RCOps {
		for _, x := range []string{"inline", "tasklet", "workqueue"} {
			t.Run(fmt.Sprintf("memory/%s/%s", op, x), func(t *testing.T) {
				test := NewRCTest(op)
				test.Size, test.Executor, test.Workers = 3000, x, 2
				test.Fill()
				run := RCRun{Duration: short, Device: RCDevice{Fabric: FabricMemory}}
				r, err := MeasureRC(t.Context(), test, run, nil)
				t.Logf("%+v", r)
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
