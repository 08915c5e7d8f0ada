// Package perf measures Gantry for the command gantry bench. It prints nothing.
//
// Every ratio comes from one run: what is compared takes turns in slices of
// some 20 milliseconds, and the median of the ratios of neighbouring slices is
// reported. So a machine that slows down for a while slows both sides.
// docs/performance.md describes each measurement.
//
// Each function measures on the goroutine that calls it and on others that it
// starts and waits for. It looks at its context.Context between slices.
package perf
