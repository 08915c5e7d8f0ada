//go:build !race

package race

// Enabled says that the race detector watches, which takes time and allocates.
const Enabled = false
