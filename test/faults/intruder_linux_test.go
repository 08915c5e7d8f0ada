package faults

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// An intruder is a client of Comch that is made by hand: it does the handshake
// as it should be, and then what it likes. It never looks whether what it finds
// in shared memory makes sense, so nothing but the other side ends it.
type intruder struct {
	rng     *rand.Rand
	conn    *ipc.Conn
	bell    *sys.Doorbell
	segment *sys.Pages
	out     *shmq.Writer // to the server
	in      *shmq.Reader // to this side

	queue, memory *sys.Pages // of a consumer of its own
	receiver      *shmq.Receiver
	targets       []*target
	notices       chan notice
	polite        bool // it sends no control messages of its own
}

// A target is a consumer of the server.
type target struct {
	queue, memory *sys.Pages
	sender        *shmq.Sender
	receives      int
	imm           int
}

// A notice is a set-up message.
type notice struct {
	bytes []byte
	fds   []int
}

// Of the handshake and the notices.
const (
	helloMagic  = 0x686d6f632d746e67
	longest     = 200 // bytes of a control message
	queued      = 16  // control messages that wait for the intruder
	serverQueue = 1024
	noticeNew   = 1
	noticeGone  = 4
	noticeLeft  = 5
	noticeBye   = 6
)

var le = binary.LittleEndian

func hello(message, queue int) []byte {
	b := make([]byte, 32)
	le.PutUint64(b, helloMagic)
	le.PutUint32(b[8:], 1)
	le.PutUint32(b[16:], uint32(message))
	le.PutUint32(b[20:], uint32(queue))
	return b
}

// newNotice returns the notice of a kind.
func newNotice(kind byte, id uint16, queue, memory, receives, imm int) []byte {
	b := make([]byte, 32)
	b[0] = kind
	le.PutUint16(b[2:], id)
	le.PutUint64(b[8:], uint64(queue))
	le.PutUint64(b[16:], uint64(memory))
	le.PutUint32(b[24:], uint32(receives))
	le.PutUint32(b[28:], uint32(imm))
	return b
}

// limits are those of a control stream.
func limits(message, queue int) shmq.StreamLimits {
	bytes := min(queue*(message+16), 256<<10)
	return shmq.StreamLimits{Message: message, Messages: queue, Bytes: max(bytes, 2*(message+16))}
}

// meeting is the name of a Comch server, for processes.
func meeting(name string) string { return "comch 0000:07:00.0 " + name }

// intrude connects to a server.
func intrude(rng *rand.Rand, name string) (*intruder, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := ipc.Dial(ctx, meeting(name))
	if err != nil {
		return nil, err
	}
	i := &intruder{rng: rng, conn: conn, notices: make(chan notice, 256)}
	if err := i.handshake(); err != nil {
		i.close()
		return nil, err
	}
	go i.listen()
	return i, nil
}

func (i *intruder) handshake() error {
	_ = i.conn.SetDeadline(time.Now().Add(5 * time.Second))
	if err := i.conn.Send(hello(longest, queued)); err != nil {
		return err
	}
	var b [64]byte
	_, fds, err := i.conn.Recv(b[:])
	if err != nil {
		return err
	}
	if len(fds) != 2 {
		ipc.CloseAll(fds)
		return errors.New("the server does not let the intruder in")
	}
	if i.bell, err = sys.DoorbellFromFD(fds[1]); err != nil {
		return err
	}
	toServer, toClient := limits(longest, int(le.Uint32(b[20:]))), limits(longest, queued)
	if i.segment, err = sys.ImportPages(fds[0], second(toServer)+toClient.Size(), true); err != nil {
		return err
	}
	if i.out, err = shmq.NewWriter(i.segment.Bytes()[:second(toServer)], toServer); err != nil {
		return err
	}
	if i.in, err = shmq.NewReader(i.segment.Bytes()[second(toServer):], toClient); err != nil {
		return err
	}
	_ = i.conn.SetDeadline(time.Time{})
	return i.conn.Send(hello(longest, queued))
}

// second is where in the segment the stream to the client begins.
func second(toServer shmq.StreamLimits) int { return (toServer.Size() + 4095) &^ 4095 }

// ambush waits for a client, as a server that is made by hand.
func ambush(rng *rand.Rand, l *ipc.Listener) (*intruder, error) {
	conn, err := l.Accept()
	if err != nil {
		return nil, err
	}
	i := &intruder{rng: rng, conn: conn, notices: make(chan notice, 256)}
	if err := i.greet(); err != nil {
		i.close()
		return nil, err
	}
	go i.listen()
	return i, nil
}

// greet is the server's part of the handshake.
func (i *intruder) greet() error {
	_ = i.conn.SetDeadline(time.Now().Add(5 * time.Second))
	var b [64]byte
	if _, _, err := i.conn.Recv(b[:]); err != nil {
		return err
	}
	toServer, toClient := limits(longest, queued), limits(longest, int(le.Uint32(b[20:])))
	var err error
	if i.segment, err = shared4(second(toServer) + toClient.Size()); err != nil {
		return err
	}
	var theirs *sys.Doorbell
	if i.bell, theirs, err = sys.NewDoorbell(); err != nil {
		return err
	}
	err = i.conn.Send(hello(longest, queued), i.segment.FD(), theirs.FD())
	_ = theirs.Close()
	if err != nil {
		return err
	}
	if i.in, err = shmq.NewReader(i.segment.Bytes()[:second(toServer)], toServer); err != nil {
		return err
	}
	if i.out, err = shmq.NewWriter(i.segment.Bytes()[second(toServer):], toClient); err != nil {
		return err
	}
	if _, _, err = i.conn.Recv(b[:]); err != nil {
		return err
	}
	return i.conn.SetDeadline(time.Time{})
}

// listen takes notices until the end of the socket.
func (i *intruder) listen() {
	defer close(i.notices)
	for {
		b := make([]byte, 64)
		n, fds, err := i.conn.Recv(b)
		if err != nil {
			return
		}
		select {
		case i.notices <- notice{b[:n], fds}:
		default:
			ipc.CloseAll(fds)
		}
	}
}

// heed takes what the server has said. It reports false when there is no server
// any more.
func (i *intruder) heed() bool {
	for {
		select {
		case n, ok := <-i.notices:
			if !ok {
				return false
			}
			if len(n.fds) == 2 {
				i.aim(n)
			}
			if n.bytes[0] == noticeGone && i.rng.IntN(2) == 0 {
				_ = i.conn.TrySend(newNotice(noticeLeft, le.Uint16(n.bytes[2:]), 0, 0, 0, 0))
			}
		default:
			return true
		}
	}
}

// aim maps a consumer of the server, and says that it did.
func (i *intruder) aim(n notice) {
	t := &target{receives: int(le.Uint32(n.bytes[24:])), imm: int(le.Uint32(n.bytes[28:]))}
	var err error
	if t.queue, err = sys.ImportPages(n.fds[0], int(le.Uint64(n.bytes[8:])), true); err != nil {
		ipc.CloseAll(n.fds[1:])
		return
	}
	if t.memory, err = sys.ImportPages(n.fds[1], int(le.Uint64(n.bytes[16:])), true); err == nil {
		t.sender, err = shmq.NewSender(t.queue.Bytes(), t.receives, uint64(len(t.memory.Bytes())))
	}
	if err == nil {
		i.targets = append(i.targets, t)
		_ = i.conn.TrySend(newNotice(2, le.Uint16(n.bytes[2:]), 0, 0, 0, 0))
	}
}

// offer makes a consumer and tells the server of it.
func (i *intruder) offer() error {
	var err error
	if i.queue, err = shared4(shmq.QueueSize(slots)); err != nil {
		return err
	}
	if i.memory, err = shared4(slots * slotSize); err != nil {
		return err
	}
	if i.receiver, err = shmq.NewReceiver(i.queue.Bytes(), slots, 32); err != nil {
		return err
	}
	return i.conn.TrySend(newNotice(noticeNew, 1, shmq.QueueSize(slots), slots*slotSize, slots, 32), i.queue.FD(), i.memory.FD())
}

// shared4 makes sealed memory.
func shared4(n int) (*sys.Pages, error) {
	p, err := sys.AllocPages(n, sys.PagesOptions{Shareable: true})
	if err == nil {
		err = p.Seal(false)
	}
	return p, err
}

// talk does what an honest client does: posts receives, takes what came, sends
// what it can.
func (i *intruder) talk() {
	if i.receiver != nil {
		for s := range slots {
			i.receiver.Post(s, uint64(s*slotSize), slotSize)
		}
		var a shmq.Arrival
		for range slots {
			if ok, _ := i.receiver.Next(&a); !ok {
				break
			}
		}
		if i.receiver.Credit().Take() {
			_ = i.bell.Ring()
		}
	}
	for _, t := range i.targets {
		i.strike(t, func(r shmq.Receive) {
			n := min(r.Length, 8+i.rng.IntN(slotSize))
			copy(t.memory.Bytes()[r.Off:], message(i.rng.IntN(1000))[:8])
			t.sender.Arrive(r.Slot, n, 1, nil)
		})
	}
	var b [longest]byte
	if !i.polite && i.rng.IntN(16) == 0 { // what is not read yet keeps a dead connection
		i.say(b[:i.rng.IntN(longest)])
	}
	for range queued {
		if _, ok, _ := i.in.Read(b[:]); !ok {
			break
		}
	}
	if i.in.Writer().Take() {
		_ = i.bell.Ring()
	}
}

// say sends a control message.
func (i *intruder) say(m []byte) {
	if ok, _ := i.out.Write(m); ok && i.out.Reader().Take() {
		_ = i.bell.Ring()
	}
}

// start is what a side of secure-channel says first.
func (i *intruder) start() {
	m := binary.BigEndian.AppendUint32(nil, 0)
	m = binary.BigEndian.AppendUint32(m, 1<<31)
	i.say(binary.BigEndian.AppendUint32(m, uint32(1+i.rng.IntN(slotSize))))
}

// strike claims a receive of a target for f, which publishes something.
func (i *intruder) strike(t *target, f func(shmq.Receive)) {
	if r, ok, _ := t.sender.Peek(); ok {
		t.sender.Claim()
		f(r)
		if t.sender.Receiver().Take() {
			_ = i.bell.Ring()
		}
	}
}

// areas returns all memory that both processes can reach.
func (i *intruder) areas() (all []*sys.Pages) {
	all = append(all, i.segment)
	if i.receiver != nil {
		all = append(all, i.queue, i.memory)
	}
	for _, t := range i.targets {
		all = append(all, t.queue, t.memory)
	}
	return all
}

// close goes away without a word.
func (i *intruder) close() {
	_ = i.conn.Close()
	if i.bell != nil {
		_ = i.bell.Close()
	}
	if i.segment != nil {
		for _, p := range i.areas() {
			_ = p.Free()
		}
	}
}

// openAny returns descriptors of all kinds that are not what a server expects.
func openAny() (files []*os.File) {
	for _, path := range []string{"/", "/dev/null", "/dev/zero", "/proc/self/maps", os.Args[0]} {
		if f, err := os.Open(path); err == nil {
			files = append(files, f)
		}
	}
	if r, w, err := os.Pipe(); err == nil {
		files = append(files, r, w)
	}
	return files
}
