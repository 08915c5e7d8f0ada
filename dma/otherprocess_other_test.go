//go:build !linux

package dma

func otherProcess() bool { return false }
