//go:build race

package syncevent

const raceEnabled = true
