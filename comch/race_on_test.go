//go:build race

package comch

// raceEnabled says that the race detector watches, which takes its time.
const raceEnabled = true
