// Package sys is the one door to the operating system, and the one place
// that uses unsafe. It speaks in bytes, descriptors and error numbers; what
// they mean is decided by the packages above.
//
// Calls that a platform does not have return [errors.ErrUnsupported].
package sys
