//go:build race

package allocs

const raceEnabled = true
