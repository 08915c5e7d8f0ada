// Package samples lists the samples: one program for each sample of NVIDIA
// DOCA's progress engine and DMA library, under its DOCA name, with the same
// steps, numbers of tasks and checks. Each is a package of its own, short
// enough to read in one sitting beside the original; docs/samples.md says what
// each one proves.
package samples

import (
	"github.com/gantry-rdma/gantry/samples/pepolling"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// A Sample is one program.
type Sample = sample.Sample

// A Result is what a sample counted, and whether all was as it should be.
type Result = sample.Result

// ErrUsage is matched by the error of a run whose arguments were wrong.
var ErrUsage = sample.ErrUsage

// The groups.
const (
	engine = "progress engine"
	copies = "dma"
)

// List returns the samples in the order in which to read them.
func List() []Sample {
	return []Sample{
		{Name: "pe_polling", Group: engine, Summary: "16 copies, completed by a busy loop", Run: pepolling.Run},
	}
}
