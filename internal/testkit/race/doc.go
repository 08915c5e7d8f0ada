// Package race tells a test whether the race detector watches it.
package race
