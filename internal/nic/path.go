package nic

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
)

// A path is what all queue pairs that send to one address share: the receive
// buffer there, whose size nobody announces, and which other devices fill as
// well. It says how many packets they may have outstanding together.
//
// That number begins small and doubles in a round trip, up to what a buffer
// like our own would hold. It grows by one in a round trip from there, and
// shrinks by three tenths when packets are lost: once for all that are lost
// within a round trip.
//
// The send halves feed and read it without a lock. What two of them change at
// the same time may get lost, which does no harm; out alone is exact.
type path struct {
	allowed   atomic.Int64 // packets outstanding at most
	threshold atomic.Int64 // from here on allowed grows slowly
	out       atomic.Int64 // packets that are outstanding
	credit    atomic.Int64 // acknowledged since allowed last grew by one
	shrunk    atomic.Int64 // when allowed last shrank
}

const (
	firstAllowed = 64
	leastAllowed = 16
	leastWindow  = 4 // what a queue pair may have out while there is room, however many they are
)

// paths are all there are. Addresses that fall into the same one share it.
type paths [64]path

// newPaths returns paths to buffers that hold that many packets, as we guess.
func newPaths(guess int64) *paths {
	ps := new(paths)
	guess = max(guess, leastAllowed)
	for i := range ps {
		ps[i].allowed.Store(min(firstAllowed, guess))
		ps[i].threshold.Store(guess)
	}
	return ps
}

// to returns the path to an address.
func (p *paths) to(a frame.Addr) *path {
	h := uint32(2166136261) // FNV-1a
	for _, b := range a.IP {
		h = (h ^ uint32(b)) * 16777619
	}
	return &p[(h>>16^h)%uint32(len(p))]
}

// share returns how many packets one of that many send halves may have
// outstanding, which has own now. One it always may: only its answer tells that
// there is room again.
func (p *path) share(halves, own int64) int64 {
	allowed := p.allowed.Load()
	return max(1, min(max(allowed/halves, leastWindow), allowed-p.out.Load()+own))
}

// heed takes note of what a send half has learned, and returns what it has
// outstanding; it had own before. With more than most there is no use in
// allowing more.
func (p *path) heed(f *qp.Feedback, own int64, now qp.Instant, most int64) int64 {
	switch {
	case f.Lost:
		p.lost(f.Trip, now)
	case f.Acked > 0:
		p.acked(int64(f.Acked), most)
	}
	out := int64(f.Out)
	if out != own {
		p.out.Add(out - own)
	}
	return out
}

// acked grows what is allowed, if half of it is used.
func (p *path) acked(n, most int64) {
	allowed := p.allowed.Load()
	if allowed >= most || 2*p.out.Load() < allowed {
		return
	}
	if t := p.threshold.Load(); allowed < t {
		p.allowed.Store(min(allowed+n, t, most))
		return
	}
	if p.credit.Add(n) >= allowed {
		p.credit.Store(0)
		p.allowed.Store(allowed + 1)
	}
}

// lost shrinks it, unless it has within the last round trip.
func (p *path) lost(trip, now qp.Instant) {
	was := p.shrunk.Load()
	if int64(now)-was < int64(trip) || !p.shrunk.CompareAndSwap(was, int64(now)) {
		return
	}
	allowed := max(leastAllowed, p.allowed.Load()*7/10)
	p.threshold.Store(allowed)
	p.allowed.Store(allowed)
	p.credit.Store(0)
}
