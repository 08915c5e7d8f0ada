package link

import (
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/ring"
)

// How many frames are kept at most, and how long one is late when nothing
// overtakes it.
const (
	maxDelayed = 1024
	maxLate    = 256
	lateness   = time.Millisecond
)

// never is a number of frames that is not reached.
const never = math.MaxUint64

// A copied frame has its payload with it.
type copied struct {
	frame.Frame
	home  *kept
	due   time.Time // goes then, or
	after uint64    // when so many frames were decided about
	mem   [4096]byte
}

// FrameBack puts the copy back into stock.
//
// The ring has a place for every copy, but one who is interrupted while he
// takes a copy keeps his place until he goes on.
func (c *copied) FrameBack(*frame.Frame) {
	for !c.home.free.Push(c) {
		runtime.Gosched()
	}
}

// kept are the copies of frames that are not sent yet. All but FrameBack runs
// under the lock of the owner.
type kept struct {
	link    Link
	free    *ring.MPMC[*copied]
	delayed []*copied // all by the same time, so in order
	late    []*copied // to be overtaken
	waiting atomic.Bool
	single  [1]*frame.Frame
}

func (k *kept) init(l Link, delay bool) {
	n := maxLate
	if delay {
		n += maxDelayed
	}
	k.link, k.free = l, ring.NewMPMC[*copied](n)
	k.delayed, k.late = make([]*copied, 0, n), make([]*copied, 0, n)
	stock := make([]copied, n)
	for i := range stock {
		c := &stock[i]
		c.home, c.Owner, c.Payload = k, c, make([][]byte, 0, 1)
		k.free.Push(c)
	}
}

// add keeps a copy of f: for a time, or until so many frames were decided
// about. It reports false if there is no room, or f is too long.
func (k *kept) add(f *frame.Frame, wait time.Duration, after uint64, what fate, detail uint64) bool {
	if f.Len > len(copied{}.mem) {
		return false
	}
	c, ok := k.free.Pop()
	if !ok {
		return false
	}
	c.fill(f)
	if what == damage {
		c.spoil(detail)
	}
	c.due, c.after = time.Now().Add(wait), after
	if after == never && what != overtake {
		k.delayed = append(k.delayed, c)
	} else {
		k.late = append(k.late, c)
	}
	k.waiting.Store(true)
	return true
}

// fill copies f, except for whose it is.
func (c *copied) fill(f *frame.Frame) {
	c.Head, c.HeadLen, c.Pad, c.Len = f.Head, f.HeadLen, f.Pad, f.Len
	c.Peer, c.Damage, c.TOS, c.TTL = f.Peer, f.Damage, f.TOS, f.TTL
	n := 0
	for _, p := range f.Payload {
		n += copy(c.mem[n:], p)
	}
	c.Payload = append(c.Payload[:0], c.mem[:n])
}

// spoil flips one bit that the ICRC covers, and breaks the ICRC.
func (c *copied) spoil(detail uint64) {
	c.Damage ^= uint32(detail>>32) | 1
	bit := int(uint32(detail) % uint32(8*(int(c.HeadLen)+c.Len)))
	at, mask := bit/8, byte(1)<<(bit%8)
	if at < int(c.HeadLen) {
		c.Head[at] ^= mask
	} else {
		c.mem[at-int(c.HeadLen)] ^= mask
	}
}

// next returns how many frames are to be decided about before one goes.
func (k *kept) next() uint64 {
	next := uint64(never)
	for _, c := range k.late {
		next = min(next, c.after)
	}
	return next
}

// release sends what is due. If something is left, it returns how long until
// the next is due.
func (k *kept) release(seq uint64, now time.Time) (next time.Duration, some bool) {
	sent := 0
	for sent < len(k.delayed) && !k.delayed[sent].due.After(now) && k.send(k.delayed[sent]) {
		sent++
	}
	k.delayed = slices.Delete(k.delayed, 0, sent)
	k.late = slices.DeleteFunc(k.late, func(c *copied) bool {
		return (c.after <= seq || !c.due.After(now)) && k.send(c)
	})
	next = time.Hour
	for _, list := range [...][]*copied{k.delayed[:min(1, len(k.delayed))], k.late} {
		for _, c := range list {
			next, some = min(next, c.due.Sub(now)), true
		}
	}
	k.waiting.Store(some)
	return max(next, lateness/2), some
}

func (k *kept) send(c *copied) bool {
	k.single[0] = &c.Frame
	return k.link.Send(k.single[:]) == 1
}
