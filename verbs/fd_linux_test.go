package verbs_test

import (
	"testing"

	"golang.org/x/sys/unix"

	. "github.com/gantry-rdma/gantry/verbs"
)

// A program with its own poll set waits for the descriptor and calls TryGet.
// Nothing else drives the device then, not even where polling does.
func TestTheDescriptorSaysWhenToLook(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r, ch, cq := eventRig(t, da, db)
		fd := must(ch.FD())(t)
		for n := range 20 {
			cq.Arm(false)
			r.a.recv(RecvWR{})
			r.b.send(SendWR{ID: uint64(n), Opcode: WRSend, Flags: Signaled})
			for got, err := ch.TryGet(); got != cq; got, err = ch.TryGet() {
				if err != EAGAIN {
					t.Fatal(err)
				}
				ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
				if ready == 0 || err != nil && err != unix.EINTR {
					t.Fatalf("got %d descriptors and error %v after %v, want one", ready, err, limit)
				}
			}
			cq.Ack(1)
			r.a.good(cq)
			r.b.good(r.b.scq)
		}
	})
}
