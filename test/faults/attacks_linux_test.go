package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
	"golang.org/x/sys/unix"
)

func init() { roles["hostile"] = playHostile }

// The settings of a hostile process.
const (
	attackVariable = "GANTRY_FAULTS_ATTACK"
	seedVariable   = "GANTRY_FAULTS_SEED"
	timeVariable   = "GANTRY_FAULTS_TIME"
	nameVariable   = "GANTRY_FAULTS_SERVICE"
	sideVariable   = "GANTRY_FAULTS_SIDE" // server, or else client
)

// attacks are what an intruder does, once or as often as it is let.
var attacks = map[string]func(*intruder){
	"words":   (*intruder).scribble,
	"entries": (*intruder).lie,
	"rings":   (*intruder).flood,
	"bell":    (*intruder).ring,
	"pages":   (*intruder).mistreat,
	"notices": (*intruder).babble,
}

// playHostile comes in again and again, attacks until it is thrown out, and ends
// in good time. It tells how often it was let in and thrown out, and stays
// connected, without a word, until its standard input ends.
func playHostile() error {
	n, _ := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	rng := rand.New(rand.NewPCG(n, 7))
	last, err := time.ParseDuration(os.Getenv(timeVariable))
	if err != nil {
		return err
	}
	names := strings.Fields(os.Getenv(attackVariable))
	ctx := untilEOF()
	meet, err := meeter(ctx, rng)
	if err != nil {
		return err
	}
	in, out := 0, 0
	for end := time.Now().Add(last); time.Now().Before(end) && ctx.Err() == nil; {
		i, err := meet()
		if err != nil {
			<-time.After(5 * time.Millisecond)
			continue
		}
		in++
		if i.visit(names, end) {
			out++
		}
		if time.Now().Before(end) {
			i.close()
		} else {
			defer i.close() // the last one stays
		}
	}
	fmt.Println("allowed", allowed)
	fmt.Println("visits", in, out)
	<-ctx.Done()
	return nil
}

// meeter returns how the process meets others: as a client, or as a server.
func meeter(ctx context.Context, rng *rand.Rand) (func() (*intruder, error), error) {
	name := os.Getenv(nameVariable)
	if os.Getenv(sideVariable) != "server" {
		return func() (*intruder, error) { return intrude(rng, name) }, nil
	}
	l, err := ipc.Listen(meeting(name))
	if err == nil {
		context.AfterFunc(ctx, func() { _ = l.Close() })
	}
	return func() (*intruder, error) { return ambush(rng, l) }, err
}

// visit attacks for a while, and reports whether the server ended that.
func (i *intruder) visit(names []string, end time.Time) (thrown bool) {
	_ = i.offer()
	if i.polite = os.Getenv(nameVariable) != service; i.polite {
		i.start()
	}
	until := time.Now().Add(time.Duration(i.rng.IntN(200)) * time.Millisecond)
	calm := i.rng.IntN(50) // so many rounds the fast path runs first
	for n := 0; time.Now().Before(end) && time.Now().Before(until); n++ {
		if !i.heed() {
			return true
		}
		i.talk()
		if n < calm {
			continue
		}
		attacks[names[i.rng.IntN(len(names))]](i)
	}
	return false
}

// anything returns a number that may be nearly right.
func (i *intruder) anything(old uint64) uint64 {
	switch i.rng.IntN(7) {
	case 0:
		return i.rng.Uint64()
	case 1:
		return uint64(i.rng.IntN(100))
	case 2:
		return old + uint64(i.rng.IntN(3)) - 1
	case 3:
		return old ^ 1<<i.rng.IntN(64)
	case 4:
		return uint64(i.rng.IntN(100)) << i.rng.IntN(64)
	case 5:
		return old<<32 | old>>32
	}
	return ^uint64(0) >> i.rng.IntN(64)
}

// scribble writes into words of the shared memory, most often into those at the
// beginning, which say how far each side is.
func (i *intruder) scribble() {
	all := i.areas()
	for range 1 + i.rng.IntN(8) {
		words, _ := sys.Words(all[i.rng.IntN(len(all))].Bytes())
		n := len(words)
		if i.rng.IntN(2) == 0 {
			n = min(n, 256)
		}
		w := &words[i.rng.IntN(n)]
		w.Store(i.anything(w.Load()))
	}
}

// lie publishes entries in good order that say what cannot be.
func (i *intruder) lie() {
	for _, t := range i.targets {
		i.strike(t, func(r shmq.Receive) {
			slot, n := r.Slot, r.Length
			switch i.rng.IntN(4) {
			case 0:
				slot = int(int32(i.rng.Uint32()))
			case 1:
				slot = i.rng.IntN(2 * t.receives)
			case 2:
				n = r.Length + 1 + i.rng.IntN(1<<20)
			case 3:
				n = -1 - i.rng.IntN(1<<20)
			}
			t.sender.Arrive(slot, n, uint16(i.rng.Uint32()), make([]byte, i.rng.IntN(33)))
		})
	}
	if i.receiver == nil {
		return
	}
	// A receiver of its own view that posts what is not there, from the start.
	if r, err := shmq.NewReceiver(i.queue.Bytes(), slots, 32); err == nil && i.rng.IntN(4) == 0 {
		r.Post(i.rng.IntN(slots), i.anything(slotSize), i.rng.IntN(1<<20))
		_ = i.bell.Ring()
	}
}

// flood rings until there is no room for more.
func (i *intruder) flood() {
	for unix.Sendto(i.bell.FD(), []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) == nil {
	}
}

// ring rings more than anybody asked for, and does to its end of the doorbell
// what can be done to a socket.
func (i *intruder) ring() {
	fd := i.bell.FD()
	for range i.rng.IntN(2000) {
		if unix.Sendto(fd, []byte{1}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) != nil {
			break
		}
	}
	switch i.rng.IntN(8) {
	case 0:
		_ = unix.Shutdown(fd, unix.SHUT_RD)
	case 1:
		_ = unix.Shutdown(fd, unix.SHUT_WR)
	case 2:
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	case 3:
		_ = unix.Sendto(fd, make([]byte, 100_000), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	case 4:
		_ = unix.Sendto(fd, []byte{1}, unix.MSG_OOB|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	case 5: // descriptors that nobody asked for, the doorbell and the socket among them
		_ = unix.Sendmsg(fd, []byte{1}, unix.UnixRights(fd, i.segment.FD(), 0), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	case 6:
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<i.rng.IntN(24))
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<i.rng.IntN(24))
		_ = unix.SetNonblock(fd, i.rng.IntN(2) == 0)
	case 7:
		if other, err := unix.Dup(fd); err == nil && i.rng.IntN(20) == 0 {
			_ = i.bell.Close() // and other stays open
			i.bell, _ = sys.DoorbellFromFD(other)
		} else if err == nil {
			_ = unix.Close(other)
		}
	}
}

// allowed counts what the system let the intruder do to shared memory.
var allowed = map[string]int{}

// mistreat does to shared memory what can be done to a file.
func (i *intruder) mistreat() {
	all := i.areas()
	p := all[i.rng.IntN(len(all))]
	fd, size := p.FD(), int64(len(p.Bytes()))
	page := int64(i.rng.IntN(int(size/4096)+1)) * 4096
	what, err := "", error(nil)
	switch i.rng.IntN(10) {
	case 0:
		what, err = "truncate", unix.Ftruncate(fd, page)
	case 1:
		what, err = "grow", unix.Ftruncate(fd, 2*size+4096)
	case 2, 3:
		what, err = "punch", unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, page, 4096)
	case 4:
		what, err = "punch", unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size)
	case 5:
		what, err = "remove", unix.Madvise(p.Bytes(), unix.MADV_REMOVE)
	case 6:
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE)
		what = "seal"
	case 7:
		what, err = "reopen", reopen(fd, unix.O_RDWR|unix.O_TRUNC)
	case 8:
		what, err = "reopen", reopen(fd, unix.O_RDWR)
	case 9:
		what, err = "chmod", unix.Fchmod(fd, 0)
		_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		_, _ = unix.Seek(fd, page, 0)
	}
	if err == nil {
		allowed[what]++
	}
}

// reopen opens the file of a descriptor once more, and tries to make it shorter.
func reopen(fd, flags int) error {
	other, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if unix.Ftruncate(other, 0) == nil {
		allowed["truncate"]++
	}
	return unix.Close(other)
}

// babble sends set-up messages that are wrong, or make no sense now, with
// descriptors that are not what they should be.
func (i *intruder) babble() {
	files := openAny()
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	fds := make([]int, i.rng.IntN(4))
	for k := range fds {
		fds[k] = int(files[i.rng.IntN(len(files))].Fd())
		switch i.rng.IntN(6) {
		case 0:
			fds[k] = i.segment.FD()
		case 1:
			fds[k] = i.bell.FD()
		case 2:
			if p, err := shared4(4096 << i.rng.IntN(8)); err == nil {
				fds[k] = p.FD()
				defer func() { _ = p.Free() }()
			}
		case 3:
			if fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC); err == nil {
				fds[k] = fd
				_ = unix.Ftruncate(fd, 1<<20)
				defer func() { _ = unix.Close(fd) }()
			}
		}
	}
	b := newNotice(byte(i.rng.IntN(8)), uint16(i.rng.IntN(4)), shmq.QueueSize(slots), 4096<<i.rng.IntN(8), slots, 32)
	switch i.rng.IntN(4) {
	case 0:
		b = make([]byte, 1+i.rng.IntN(100))
		for k := range b {
			b[k] = byte(i.rng.Uint32())
		}
	case 1:
		le.PutUint64(b[8*i.rng.IntN(4):], i.anything(4096))
	case 2: // one that is taken, to see what becomes of it
		b[0], fds = noticeNew, append(fds, 0, 0)[:2]
		le.PutUint16(b[2:], uint16(2+i.rng.IntN(60)))
	}
	_ = i.conn.TrySend(b, fds...)
}
