package verbs_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// small is asked for as socket buffer, and the kernel counts twice as much: 208
// KiB, what a system allows that nobody has tuned. It holds three WRITEs of 64
// KiB.
const small = 106496

// openSmall opens a device over loopback with a buffer of that size; 0: large.
func openSmall(t *testing.T, x work.Executor, last byte, buffer int) *Device {
	t.Helper()
	d, err := Open(Config{Addr: netip.AddrFrom4([4]byte{127, 0, 0, last}), Executor: x, SocketBuffer: buffer})
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no device on 127.0.0.%d: %v", last, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// A writer sends messages on one queue pair, two at a time.
type writer struct {
	r    *rig
	next uint64 // to be posted
	done uint64
}

const written = 64 << 10

// post sends the next message, whose bytes are like those of no other.
func (w *writer) post() {
	at := int(w.next%2) * written
	fill(w.r.a.mem[at:at+written], int(w.next))
	w.r.a.send(SendWR{ID: w.next, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{w.r.a.mr.SGE(at, written)},
		RemoteAddr: w.r.b.mr.Addr() + uint64(at), RKey: w.r.b.mr.RKey()})
	w.next++
}

// take checks what completed, and posts as much again until there were n.
func (w *writer) take(n uint64) {
	var wc [2]WC
	w.r.b.scq.Poll(wc[:]) // drives a device that needs it
	for _, c := range wc[:w.r.a.scq.Poll(wc[:])] {
		at := int(c.ID%2) * written
		if c.Status != WCSuccess || c.ID != w.done {
			w.r.t.Fatalf("got completion %d with %v, want %d", c.ID, c.Status, w.done)
		}
		// The acknowledgement came through a socket, of which the race detector
		// knows nothing. A change of the responder waits for its run.
		if err := w.r.b.qp.Modify(QPAttr{MinRNRTimer: 1}, AttrMinRNRTimer); err != nil {
			w.r.t.Fatal(err)
		}
		if string(w.r.a.mem[at:at+written]) != string(w.r.b.mem[at:at+written]) {
			w.r.t.Fatalf("message %d is not what was sent", c.ID)
		}
		if w.done++; w.next < n {
			w.post()
		}
	}
}

// TestManyQueuePairsShareASmallReceiveBuffer: what overflows is sent again, and
// no queue pair gives up.
func TestManyQueuePairsShareASmallReceiveBuffer(t *testing.T) {
	for name, c := range map[string]struct{ senders, qps, buffer int }{
		"one sender, which knows":     {1, 16, small},
		"one sender with a large one": {1, 16, 0},
		"three senders":               {3, 6, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, x work.Executor) {
				defer x.Close()
				t.Run("", func(t *testing.T) { shareSmallBuffer(t, x, c.senders, c.qps, c.buffer) })
			})
		})
	}
}

func shareSmallBuffer(t *testing.T, x work.Executor, senders, qps, buffer int) {
	const messages = 12
	s := standard()
	s.mem, s.mtu = 2*written, 5
	to := openSmall(t, x, 41, small)
	var writers []*writer
	for i := range senders {
		from := openSmall(t, x, byte(42+i), buffer)
		for range qps {
			w := &writer{r: newRig(t, from, to, s)}
			writers = append(writers, w)
			w.post()
			w.post()
		}
	}
	advance(t, "the messages", func() (far int, done bool) {
		for _, w := range writers {
			w.take(messages)
			far += int(w.done)
		}
		return far, far == messages*len(writers)
	})
	t.Logf("%d packets were lost", to.Counter("drop_socket_buffer"))
}
