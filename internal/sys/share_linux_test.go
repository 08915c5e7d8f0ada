package sys

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// sealed returns shareable memory of n bytes that is ready to be sent, and a
// descriptor of it as another process would get it.
func sealed(t *testing.T, n int, o PagesOptions, readOnly bool) (*Pages, int) {
	t.Helper()
	o.Shareable = true
	p := alloc(t, n, o)
	if err := p.Seal(readOnly); err != nil {
		t.Fatal(err)
	}
	return p, dup(t, p.FD())
}

func dup(t *testing.T, fd int) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

func TestImportedPagesAreTheSameMemory(t *testing.T) {
	for _, huge := range []bool{false, true} {
		own, fd := sealed(t, 5000, PagesOptions{Huge: huge}, false)
		p, err := ImportPages(fd, 5000, true)
		if err != nil {
			t.Fatal(err)
		}
		own.Bytes()[4999] = 7
		p.Bytes()[0] = 8
		if p.Bytes()[4999] != 7 || own.Bytes()[0] != 8 || len(p.Bytes()) != 5000 {
			t.Error("the two do not share")
		}
		if p.Huge() != own.Huge() {
			t.Errorf("huge pages: %v, the owner's: %v", p.Huge(), own.Huge())
		}
		if err := p.Free(); err != nil || isOpen(fd) {
			t.Errorf("free: %v, descriptor open: %v", err, isOpen(fd))
		}
	}
}

func TestImportedForReadingCannotBeWritten(t *testing.T) {
	own, fd := sealed(t, 4096, PagesOptions{}, true)
	if _, err := ImportPages(dup(t, own.FD()), 4096, true); !errors.Is(err, unix.EPERM) {
		t.Errorf("import for writing: %v, want %v", err, unix.EPERM)
	}
	p, err := ImportPages(fd, 4096, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	if n, ok := Copy(p.Bytes(), []byte{1}); n != 0 || ok {
		t.Errorf("a write went through: %d bytes, %v", n, ok)
	}
	if err := unix.Mprotect(p.raw, unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EACCES) {
		t.Errorf("make it writable: %v, want %v", err, unix.EACCES)
	}
	own.Bytes()[0] = 9
	if p.Bytes()[0] != 9 {
		t.Error("what the owner writes does not arrive")
	}
}

func TestImportRefusesWhatCouldGoAway(t *testing.T) {
	unsealed := alloc(t, 4096, PagesOptions{Shareable: true})
	writable, _ := sealed(t, 4096, PagesOptions{}, false)
	growing, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(growing), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tt := range []struct {
		name     string
		fd, n    int
		writable bool
		want     error
	}{
		{"seals that are not final", dup(t, unsealed.FD()), 4096, true, ErrNotSealed},
		{"a size that can grow", growing, 1, true, ErrNotSealed},
		{"for reading, and others can write", dup(t, writable.FD()), 4096, false, ErrNotSealed},
		{"a file", dup(t, int(file.Fd())), 1, true, ErrNotSealed},
		{"no descriptor", -1, 1, true, ErrNotSealed},
		{"a page more", dup(t, writable.FD()), 4097, true, ErrTooSmall},
		{"no bytes", dup(t, writable.FD()), 0, true, ErrTooSmall},
		{"less than none", dup(t, writable.FD()), -1, true, ErrTooSmall},
		{"more than there can be", dup(t, writable.FD()), int(^uint(0) >> 1), true, unix.ENOMEM},
	} {
		if _, err := ImportPages(tt.fd, tt.n, tt.writable); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if isOpen(tt.fd) {
			t.Errorf("%s: the descriptor is open", tt.name)
		}
	}
}

func TestPeerUIDIsThatOfTheConnector(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	uid, err := PeerUID(c.(*net.UnixConn))
	if uid != os.Geteuid() || err != nil {
		t.Errorf("got %d, %v, want %d", uid, err, os.Geteuid())
	}
	c.Close()
	if uid, err := PeerUID(c.(*net.UnixConn)); uid != -1 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: got %d, %v", uid, err)
	}
}

func TestWordsAreTheBytes(t *testing.T) {
	b := make([]byte, 43)
	w, ok := Words(b)
	if !ok || len(w) != 5 {
		t.Fatalf("%d words, %v", len(w), ok)
	}
	w[1].Store(^uint64(0))
	if want := append(make([]byte, 8), bytes.Repeat([]byte{255}, 8)...); !bytes.Equal(b[:16], want) {
		t.Errorf("got %v", b[:16])
	}
	for off := 1; off < 8; off++ {
		if w, ok := Words(b[off:]); ok || w != nil {
			t.Errorf("%d bytes off a multiple of 8 counts as aligned", off)
		}
	}
	if w, ok := Words(nil); len(w) != 0 || !ok {
		t.Errorf("of nothing: %d, %v", len(w), ok)
	}
}

func doorbells(t *testing.T) (a, b *Doorbell) {
	t.Helper()
	a, b, err := NewDoorbell()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func readable(t *testing.T, d *Doorbell) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(d.FD()), Events: unix.POLLIN}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

func TestARingMakesTheOtherEndReadable(t *testing.T) {
	a, b := doorbells(t)
	if readable(t, b) {
		t.Error("readable before the first ring")
	}
	for range 3 {
		if err := a.Ring(); err != nil {
			t.Error(err)
		}
	}
	if !readable(t, b) || readable(t, a) {
		t.Errorf("readable: theirs %v, mine %v", readable(t, b), readable(t, a))
	}
	if n, gone := b.Drain(); n != 3 || gone || readable(t, b) {
		t.Errorf("drained %d, gone %v, readable %v", n, gone, readable(t, b))
	}
	if n, gone := b.Drain(); n != 0 || gone {
		t.Errorf("drained %d of nothing, gone %v", n, gone)
	}
}

func TestAFullDoorbellIsRung(t *testing.T) {
	a, b := doorbells(t)
	if err := unix.SetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		if err := a.Ring(); err != nil {
			t.Fatal(err)
		}
	}
	total, calls := 0, 0
	for readable(t, b) {
		n, gone := b.Drain()
		total, calls = total+n, calls+1
		if n > 64*drainReads || gone {
			t.Fatalf("one Drain took %d, gone %v", n, gone)
		}
	}
	if total == 0 || total == 10_000 {
		t.Errorf("drained %d in %d calls: it was never full", total, calls)
	}
}

func TestADoorbellSeesTheOtherEndClose(t *testing.T) {
	a, b := doorbells(t)
	_ = a.Ring()
	for range 2 {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if n, gone := b.Drain(); n != 1 || gone {
		t.Errorf("the ring before the end: %d, gone %v", n, gone)
	}
	if n, gone := b.Drain(); n != 0 || !gone || !readable(t, b) {
		t.Errorf("%d, gone %v, readable %v", n, gone, readable(t, b))
	}
	if err := b.Ring(); err != ErrGone {
		t.Errorf("ring: %v, want %v", err, ErrGone)
	}
	if _, gone := a.Drain(); !gone || a.Ring() != ErrGone {
		t.Error("a closed end goes on")
	}
}

func TestAPeerCannotMakeADoorbellWait(t *testing.T) {
	a, b := doorbells(t)
	// Both ends are asked to wait, as the sender of a descriptor can.
	for _, d := range []*Doorbell{a, b} {
		if err := unix.SetNonblock(d.fd, false); err != nil {
			t.Fatal(err)
		}
	}
	if n, gone := b.Drain(); n != 0 || gone {
		t.Errorf("drained %d, gone %v", n, gone)
	}
	for range 10_000 {
		if err := a.Ring(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDoorbellFromFDTakesSocketsOnly(t *testing.T) {
	a, b := doorbells(t)
	got, err := DoorbellFromFD(dup(t, b.FD()))
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Ring()
	if n, _ := got.Drain(); n != 1 {
		t.Errorf("drained %d, want 1", n)
	}
	_ = got.Close()
	udp, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{alloc(t, 1, PagesOptions{Shareable: true}).FD(), udp} {
		fd = dup(t, fd)
		if _, err := DoorbellFromFD(fd); err == nil || isOpen(fd) {
			t.Errorf("got %v, open %v", err, isOpen(fd))
		}
	}
	_ = unix.Close(udp)
}

func TestDoorbellCloseBesideRings(t *testing.T) {
	for range 200 {
		a, b, err := NewDoorbell()
		if err != nil {
			t.Fatal(err)
		}
		var g sync.WaitGroup
		for range 2 {
			g.Go(func() {
				for a.Ring() == nil {
					b.Drain()
				}
			})
		}
		_ = a.Close()
		g.Wait()
		if a.users.Load() != closed|closed>>1 {
			t.Fatalf("users %#x: the descriptor was not closed", a.users.Load())
		}
		_ = b.Close()
	}
}

func TestRingAndDrainAllocateNothing(t *testing.T) {
	a, b := doorbells(t)
	if n := testing.AllocsPerRun(100, func() { _ = a.Ring(); b.Drain() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRingAndDrain(bm *testing.B) {
	a, b, err := NewDoorbell()
	if err != nil {
		bm.Fatal(err)
	}
	for bm.Loop() {
		_ = a.Ring()
		b.Drain()
	}
	_ = a.Close()
	_ = b.Close()
}
