//go:build !linux

package core

import "pgregory.net/rapid"

func readableFunc(*rapid.T, *Engine) func() bool { return nil }
