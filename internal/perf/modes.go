package perf

// A ModeResult says what it costs, and how long it takes, to serve operations
// that become ready at a given rate, in one of three ways to wait.
type ModeResult struct {
	Mode       string  `json:"mode"`        // poll, event or run
	Rate       int     `json:"rate"`        // operations a second, as asked for
	Achieved   float64 `json:"achieved"`    // as served
	CPUPercent float64 `json:"cpu_percent"` // of one CPU, without the source of the operations
	P50        float64 `json:"p50_us"`      // from ready to callback
	P99        float64 `json:"p99_us"`      // the same of the slowest in a hundred
}

// The ways to wait.
const (
	modePoll  = "poll"  // Progress, again and again
	modeEvent = "event" // request, poll(2), clear, progress until nothing is left
	modeRun   = "run"   // core.Engine.Run
)

// modeRates are the rates at which each mode is measured, in operations a
// second.
var modeRates = []int{1000, 30_000, 200_000}
