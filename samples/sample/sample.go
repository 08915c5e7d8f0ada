// Package sample holds what every sample is and what it answers. It exists so
// that the samples and the list of them can share these types.
package sample

import (
	"errors"
	"io"
)

// ErrUsage is matched by the error of a run whose arguments were wrong: the
// sample did nothing.
var ErrUsage = errors.New("wrong usage")

// A Sample is one program of the samples folder.
type Sample struct {
	Name    string // as in DOCA, such as "pe_polling"
	Group   string // such as "progress engine" or "dma"
	Summary string // one line: what happens

	// Peer names the sample that must run at the same time in another process;
	// it is empty for one that runs alone.
	Peer string

	// Run runs the sample with the arguments args (without its name), writes
	// its story to out, and to errOut what went wrong beside the error that it
	// returns. With -h it prints its flags and does nothing, successfully.
	Run func(args []string, out, errOut io.Writer) (Result, error)
}

// A Result is what a sample counted. OK is true exactly when the error that came
// with it is nil.
//
// A task that is submitted again counts once in Tasks, and each time it comes
// back in one of Completed, Failed and Flushed.
type Result struct {
	Name      string   `json:"name"`      // of the sample
	OK        bool     `json:"ok"`        // all was as it should be
	Tasks     int      `json:"tasks"`     // allocated, over all contexts
	Completed int      `json:"completed"` // came back with success
	Failed    int      `json:"failed"`    // came back with an error of their own
	Flushed   int      `json:"flushed"`   // came back because their context stopped
	States    []string `json:"states"`    // transitions of the contexts, as "idle>running"
}
