package perf

// A ModesResult holds every mode at every rate, and how Run compares to the
// better of the other two.
type ModesResult struct {
	Modes       []ModeResult `json:"modes"`         // by rate, and poll, event, run at each
	RunToBetter []RunRatio   `json:"run_to_better"` // one for each rate
}

// A RunRatio is how Run does beside the better of polling and waiting, which
// is seldom the same one in both regards: medians of ratios, slice by slice.
type RunRatio struct {
	Rate int     `json:"rate"` // operations a second
	P50  float64 `json:"p50"`  // of the latency; polling is usually better
	CPU  float64 `json:"cpu"`  // of the CPU's time; waiting is usually better
}

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

// noModes is a result with empty lists, which JSON shows as such.
func noModes() ModesResult { return ModesResult{Modes: []ModeResult{}, RunToBetter: []RunRatio{}} }

// The ways to wait.
const (
	modePoll  = "poll"  // Progress, again and again
	modeEvent = "event" // request, poll(2), clear, progress until nothing is left
	modeRun   = "run"   // core.Engine.Run
)

// modeRates are the rates at which each mode is measured, in operations a
// second.
var modeRates = []int{1000, 30_000, 200_000}

// better returns the smaller of each pair.
func better(a, b []float64) []float64 {
	least := make([]float64, min(len(a), len(b)))
	for i := range least {
		least[i] = min(a[i], b[i])
	}
	return least
}
