// Package faults has tests that do to processes what must not harm others: they
// are killed, stopped, put into other containers, and lied to. See README.md.
package faults
