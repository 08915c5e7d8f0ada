package perf

// A WakeResult compares how a thread that waits is woken: through the
// descriptor of an engine by a context's Notify, and through a bare eventfd by
// a write. The figures without a placement are those of two CPUs.
type WakeResult struct {
	NotifyP50  float64     `json:"notify_wake_p50_ns"`      // through an engine
	EventfdP50 float64     `json:"eventfd_baseline_p50_ns"` // through a bare eventfd
	Ratio      float64     `json:"notify_wake_ratio"`       // the one to the other
	Wakes      []WakePoint `json:"wakes"`                   // of every placement
}

// A WakePoint holds the latencies of one placement of the two threads, from
// just before the call that wakes to the return of poll, and from there on to
// the moment when the waiter has taken what it was woken for.
type WakePoint struct {
	Placement string `json:"placement"` // two_cpus, same_cpu, or unpinned
	Wakes     int64  `json:"wakes"`     // of each kind

	NotifyP50    float64 `json:"notify_p50_ns"`        // engine: until poll returned
	NotifyP99    float64 `json:"notify_p99_ns"`        // the same of the slowest in a hundred
	NotifyTaken  float64 `json:"notify_taken_p50_ns"`  // until ClearNotification and Progress were done
	EventfdP50   float64 `json:"eventfd_p50_ns"`       // bare eventfd: until poll returned
	EventfdP99   float64 `json:"eventfd_p99_ns"`       // the same of the slowest in a hundred
	EventfdTaken float64 `json:"eventfd_taken_p50_ns"` // until read was done
	Ratio        float64 `json:"ratio"`                // engine to eventfd: of the medians, slice by slice
}
