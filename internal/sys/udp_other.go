//go:build !linux

package sys

import (
	"errors"
	"net/netip"
)

// A UDP needs Linux; here OpenUDP answers errors.ErrUnsupported, so that no
// other method is ever reached.
type UDP struct{}

// OpenUDP answers errors.ErrUnsupported.
func OpenUDP(netip.AddrPort, UDPOptions) (*UDP, error) { return nil, errors.ErrUnsupported }

// Join answers errors.ErrUnsupported.
func (u *UDP) Join(netip.AddrPort, UDPOptions) (*UDP, error) { return nil, errors.ErrUnsupported }

// ShowHeaders does nothing.
func (u *UDP) ShowHeaders() {}

// FD returns -1.
func (u *UDP) FD() int { return -1 }

// CanCut reports false.
func (u *UDP) CanCut() bool { return false }

// Wait reports false.
func (u *UDP) Wait() bool { return false }

// WatchRoom does nothing.
func (u *UDP) WatchRoom() {}

// HasRoom reports false.
func (u *UDP) HasRoom() bool { return false }

// RecvBuffer returns 0.
func (u *UDP) RecvBuffer() int { return 0 }

// SendBuffer returns 0.
func (u *UDP) SendBuffer() int { return 0 }

// Drops returns 0.
func (u *UDP) Drops() uint64 { return 0 }

// Close does nothing.
func (u *UDP) Close() error { return nil }

// A SendBatch has no use without a UDP.
type SendBatch struct{}

// NewSendBatch returns an empty batch.
func NewSendBatch(int, int) *SendBatch { return new(SendBatch) }

// Free returns 0.
func (b *SendBatch) Free() int { return 0 }

// Len returns 0.
func (b *SendBatch) Len() int { return 0 }

// Add does nothing.
func (b *SendBatch) Add([]byte) {}

// End does nothing.
func (b *SendBatch) End(*UDP, netip.AddrPort, int) {}

// EndAs does nothing.
func (b *SendBatch) EndAs(*UDP, netip.AddrPort, int, IPHeader) {}

// Send answers errors.ErrUnsupported.
func (b *SendBatch) Send(*UDP, int) (int, error) { return 0, errors.ErrUnsupported }

// Reset does nothing.
func (b *SendBatch) Reset() {}

// A RecvBatch has no use without a UDP.
type RecvBatch struct{}

// NewRecvBatch returns an empty batch.
func NewRecvBatch(int) *RecvBatch { return new(RecvBatch) }

// Set does nothing.
func (b *RecvBatch) Set(int, []byte) {}

// Recv answers errors.ErrUnsupported.
func (b *RecvBatch) Recv(*UDP, int) (int, error) { return 0, errors.ErrUnsupported }

// Got returns nothing.
func (b *RecvBatch) Got(int) Received { return Received{} }
