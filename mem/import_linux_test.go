package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/sys"
	"golang.org/x/sys/unix"
)

// waitRevoked waits until the goroutine of an imported map has seen the end.
func waitRevoked(t testing.TB, m *Map) {
	t.Helper()
	select {
	case <-m.imported.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the map was not revoked")
	}
	if !m.Revoked() || m.Started() {
		t.Errorf("revoked %v, started %v", m.Revoked(), m.Started())
	}
}

func TestStopOfTheOwnerRevokesImports(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m, other := shareable(t, d, 4096, PCIReadOnly), shareable(t, d, 4096, PCIReadOnly)
	blob := exportOf(t, m, d)
	i, err := Import(0, nil, blob, d)
	must(t, err)
	stays, err := Import(0, nil, exportOf(t, other, d), d)
	must(t, err)
	inv, local := startedInventory(t, 4), startedMap(t, 64)
	b := take(t, inv, i, 0, 8)
	list := take(t, inv, local, 0, 8)
	must(t, list.Chain(take(t, inv, i, 8, 8)))
	must(t, m.Stop())
	waitRevoked(t, i)
	if m.Exported() || i.Bytes()[9] != 9 {
		t.Error("the owner still exports, or the bytes are gone")
	}
	checkCodes(t, []codeTest{
		{"lend", b.Lend(), core.ErrIOFailed},
		{"lend to write", b.LendToWrite(), core.ErrIOFailed},
		{"lend a list with one", list.Lend(), core.ErrIOFailed},
		{"take", second(inv.ByAddr(i, i.base, 1)), core.ErrBadState},
		{"duplicate", second(inv.Dup(b)), core.ErrBadState},
		{"reuse", inv.ReuseByAddr(b, i.base, 1), core.ErrBadState},
		{"set access", i.SetAccess(LocalReadWrite), core.ErrBadState},
		{"add device", i.AddDevice(openCard(t, hostSide)), core.ErrNotPermitted},
		{"set user data", i.SetUserData(1, nil), core.ErrBadState},
		{"start", i.Start(), core.ErrNotPermitted},
		{"stop", i.Stop(), core.ErrNotPermitted},
		{"export", second(i.ExportPCI(d)), core.ErrNotPermitted},
		{"destroy with bufs", i.Destroy(), core.ErrNotPermitted},
		{"import a stopped one", second(Import(0, nil, blob, d)), core.ErrNotPermitted},
	})
	if b.Lent() || list.Lent() || list.Next().Lent() {
		t.Error("a refused loan is counted")
	}
	for _, b := range []*Buf{b, list} {
		must(t, second(b.Unref()))
	}
	must(t, i.Destroy())
	if stays.Revoked() {
		t.Error("the import of another map was revoked")
	}
	must(t, m.Start())
	checkCodes(t, []codeTest{{"replay after a restart", second(Import(0, nil, blob, d)), core.ErrNotPermitted}})
	again, err := Import(0, nil, exportOf(t, m, d), d)
	must(t, err)
	must(t, m.Destroy())
	waitRevoked(t, again)
	checkCodes(t, []codeTest{{"replay after destroy", second(Import(0, nil, blob, d)), core.ErrNotPermitted}})
	must(t, again.Destroy())
	must(t, stays.Destroy())
}

func TestALentBufOfAnImportKeepsItsLoan(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 64, PCIReadWrite)
	i, err := Import(0, nil, exportOf(t, m, d), d)
	must(t, err)
	b := take(t, startedInventory(t, 1), i, 0, 8)
	must(t, b.Lend())
	must(t, m.Destroy())
	waitRevoked(t, i)
	if b.Data()[7] != 7 { // the memory stays, although its owner is gone
		t.Error("the bytes are gone")
	}
	checkCodes(t, []codeTest{{"a second loan", b.Lend(), core.ErrIOFailed}})
	b.Return()
	must(t, second(b.Unref()))
	must(t, i.Destroy())
}

func TestStopWithLiveBufsKeepsExports(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 64, PCIReadOnly)
	i, err := Import(0, nil, exportOf(t, m, d), d)
	must(t, err)
	b := take(t, startedInventory(t, 1), m, 0, 8)
	checkCodes(t, []codeTest{{"stop", m.Stop(), core.ErrNotPermitted}, {"destroy", m.Destroy(), core.ErrNotPermitted}})
	if !m.Exported() || i.Revoked() {
		t.Error("a refused Stop ended the export")
	}
	must(t, second(b.Unref()))
	must(t, i.Destroy())
}

// forge changes one byte of a blob and makes the checksum right again.
func forge(p []byte, at int, by byte) []byte {
	f := append([]byte(nil), p...)
	f[at] ^= by
	binary.LittleEndian.PutUint32(f[96:], crc32.ChecksumIEEE(f[:96]))
	return f
}

func TestEveryChangedByteIsRefused(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 4096, PCIReadOnly)
	good := exportOf(t, m, d)
	for at := range good {
		damaged := append([]byte(nil), good...)
		damaged[at] ^= 1
		want := core.ErrInvalidValue
		if at >= 8 && at < 12 {
			want = core.ErrNotSupported
		}
		if _, err := Import(0, nil, damaged, d); core.StatusOf(err) != want {
			t.Errorf("byte %d damaged: %v, want %v", at, err, want)
		}
		if at >= 96 {
			continue
		}
		for _, bit := range []byte{1, 0x10, 0x80} {
			_, err := Import(0, nil, forge(good, at, bit), d)
			if s := core.StatusOf(err); s != core.ErrNotPermitted && s != core.ErrInvalidValue && s != core.ErrNotSupported {
				t.Errorf("byte %d forged with %#x: %v", at, bit, err)
			}
		}
	}
	// PCIReadOnly becomes PCIReadWrite: a claim that only the owner can refute.
	more := forge(good, 12, byte(PCIReadOnly^PCIReadWrite))
	for name, tt := range map[string]struct {
		blob []byte
		want core.Status
	}{
		"nothing":         {nil, core.ErrInvalidValue},
		"a byte less":     {good[:ExportSize-1], core.ErrInvalidValue},
		"a byte more":     {append(good[:ExportSize:ExportSize], 0), core.ErrInvalidValue},
		"more rights":     {more, core.ErrNotPermitted},
		"another secret":  {forge(good, 70, 1), core.ErrNotPermitted},
		"another address": {forge(good, 18, 1), core.ErrNotPermitted},
		"another length":  {forge(good, 24, 1), core.ErrNotPermitted},
		"another export":  {forge(good, 40, 2), core.ErrNotPermitted},
		"another place":   {forge(good, 50, 1), core.ErrNotPermitted},
	} {
		if _, err := Import(0, nil, tt.blob, d); core.StatusOf(err) != tt.want {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	i, err := Import(0, nil, good, d)
	must(t, err)
	must(t, i.Destroy())
}

func TestAnotherCardIsRefused(t *testing.T) {
	runtimeDir(t)
	d, other := openCard(t, hostSide), openCard(t, otherDPU)
	m := shareable(t, d, 64, PCIReadOnly)
	blob := exportOf(t, m, d)
	checkCodes(t, []codeTest{
		{"another card", second(Import(0, nil, blob, other)), core.ErrNotPermitted},
		{"no device", second(Import(0, nil, blob, nil)), core.ErrInvalidValue},
	})
	// An importer that changes the card in the bytes is found out by the owner.
	forged := append([]byte(nil), blob...)
	putCard(forged[32:], cardOf(other))
	_, err := Import(0, nil, forge(forged, 0, 0), other)
	if !errors.Is(err, errRefused) {
		t.Errorf("the owner says %v, want %v", err, errRefused)
	}
	closed, err := device.OpenPCI(otherHost, nil)
	must(t, err)
	must(t, closed.Close())
	checkCodes(t, []codeTest{{"a closed device", second(Import(0, nil, blob, closed)), core.ErrBadState}})
}

// guest connects to the owner of a blob.
func guest(t *testing.T, blob []byte) *ipc.Conn {
	t.Helper()
	b, _ := parseBlob(blob)
	c, err := ipc.Dial(t.Context(), rendezvousName(b.rendezvous))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	return c
}

func TestTheOwnerSurvivesHostileGuests(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 64, PCIReadOnly)
	blob := exportOf(t, m, d)
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	for name, say := range map[string]func(c *ipc.Conn) error{
		"a byte":       func(c *ipc.Conn) error { return c.Send([]byte{1}) },
		"a byte more":  func(c *ipc.Conn) error { return c.Send(append(blob[:len(blob):len(blob)], 0)) },
		"descriptors":  func(c *ipc.Conn) error { return c.Send(blob, int(null.Fd()), int(null.Fd())) },
		"a lot":        func(c *ipc.Conn) error { return c.Send(make([]byte, ipc.MaxMessage)) },
		"zeroes":       func(c *ipc.Conn) error { return c.Send(make([]byte, ExportSize)) },
		"wrong secret": func(c *ipc.Conn) error { return c.Send(forge(blob, 80, 1)) },
	} {
		c := guest(t, blob)
		must(t, say(c))
		if fd, err := answerFrom(c); err == nil {
			t.Errorf("%s: got descriptor %d", name, fd)
		}
	}
	// One says nothing, and one goes on after the answer, which is its end.
	guest(t, blob)
	c := guest(t, blob)
	must(t, c.Send(blob))
	fd, err := answerFrom(c)
	must(t, err)
	must(t, unix.Close(fd))
	must(t, c.Send(blob, int(null.Fd())))
	if _, err := answerFrom(c); err == nil {
		t.Error("a second request got an answer")
	}
	i, err := Import(0, nil, blob, d)
	must(t, err)
	start := time.Now()
	must(t, m.Destroy())
	if took := time.Since(start); took > answerWithin/2 {
		t.Errorf("Destroy waited %v for a guest that says nothing", took)
	}
	waitRevoked(t, i)
	must(t, i.Destroy())
}

// impostor answers requests at the rendezvous of a blob in the owner's place.
func impostor(t *testing.T, b *blob, answer []byte, fds ...int) {
	t.Helper()
	l, err := ipc.Listen(rendezvousName(b.rendezvous))
	must(t, err)
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _, err = c.Recv(make([]byte, 2*ExportSize))
			if err == nil && answer != nil {
				err = c.Send(answer, fds...)
			}
			c.Close()
		}
		done <- err
	}()
	t.Cleanup(func() { must(t, <-done); must(t, l.Close()) })
}

func TestAHostileOwnerIsRefused(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	pages := func(t *testing.T, n int, seal, readOnly bool) int {
		p, err := sys.AllocPages(n, sys.PagesOptions{Shareable: true})
		must(t, err)
		t.Cleanup(func() { must(t, p.Free()) })
		if seal {
			must(t, p.Seal(readOnly))
		}
		return p.FD()
	}
	file := int(tempFile(t, 8192, os.O_RDWR).Fd())
	yes, no := []byte{answerYes}, []byte{answerNo}
	for _, tt := range []struct {
		name   string
		answer []byte
		fds    func(t *testing.T) []int
	}{
		{"nothing", nil, nil},
		{"no", no, nil},
		{"no, with memory", no, func(t *testing.T) []int { return []int{pages(t, 8192, true, false)} }},
		{"yes, without memory", yes, nil},
		{"yes, twice", yes, func(t *testing.T) []int { return []int{pages(t, 8192, true, false), file} }},
		{"too much", []byte{answerYes, 0}, func(t *testing.T) []int { return []int{pages(t, 8192, true, false)} }},
		{"a file", yes, func(t *testing.T) []int { return []int{file} }},
		{"memory not sealed", yes, func(t *testing.T) []int { return []int{pages(t, 8192, false, false)} }},
		{"memory for reading", yes, func(t *testing.T) []int { return []int{pages(t, 8192, true, true)} }},
		{"memory of less bytes", yes, func(t *testing.T) []int { return []int{pages(t, 4096, true, false)} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runtimeDir(t)
			var fds []int
			if tt.fds != nil {
				fds = tt.fds(t)
			}
			b := &blob{access: PCIReadWrite, base: 1 << 20, n: 8192, card: cardOf(d)}
			impostor(t, b, tt.answer, fds...)
			if _, err := Import(0, nil, b.bytes(), d); core.StatusOf(err) != core.ErrNotPermitted {
				t.Errorf("got %v, want %v", err, core.ErrNotPermitted)
			}
		})
	}
	if !strings.Contains(second(Import(0, nil, (&blob{access: PCIReadOnly, n: 1, card: cardOf(d)}).bytes(), d)).Error(), "GANTRY_RUNTIME_DIR") {
		t.Error("the error of a dead owner does not say so")
	}
}

func TestAnOwnerThatDoesNotAnswer(t *testing.T) {
	runtimeDir(t)
	b := &blob{access: PCIReadOnly, n: 1}
	l, err := ipc.Listen(rendezvousName(b.rendezvous))
	must(t, err)
	defer l.Close()
	_, _, err = b.ask(b.bytes(), time.Now().Add(10*time.Millisecond))
	if s := importStatus(err); s != core.ErrDriver {
		t.Errorf("got %v (%v), want %v", s, err, core.ErrDriver)
	}
	if s := importStatus(context.DeadlineExceeded); s != core.ErrDriver {
		t.Errorf("an owner whose queue is full: %v", s)
	}
}

func TestManyImportsComeAndGo(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 1<<16, PCIReadWrite)
	blob := exportOf(t, m, d)
	results := make(chan error)
	const workers = 4
	for range workers {
		go func() {
			var err error
			for n := 0; n < 20 && err == nil; n++ {
				var i *Map
				if i, err = Import(0, nil, blob, d); err == nil {
					runtime.Gosched()
					err = i.Destroy()
				}
			}
			results <- err
		}()
	}
	for range workers {
		must(t, <-results)
	}
	var all []*Map
	for range 16 {
		i, err := Import(0, nil, blob, d)
		must(t, err)
		all = append(all, i)
	}
	must(t, m.Destroy())
	for _, i := range all {
		waitRevoked(t, i)
		must(t, i.Destroy())
	}
}

// TestImportsBesideStops is for the race detector, and for what hangs.
func TestImportsBesideStops(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 4096, PCIReadOnly)
	for range 20 {
		blob := exportOf(t, m, d)
		results := make(chan error)
		const workers = 3
		for range workers {
			go func() {
				for {
					i, err := Import(0, nil, blob, d)
					if err != nil {
						results <- err
						return
					}
					_ = i.Destroy()
				}
			}()
		}
		must(t, m.Stop())
		for range workers {
			if err := <-results; core.StatusOf(err) != core.ErrNotPermitted {
				t.Errorf("got %v, want %v", err, core.ErrNotPermitted)
			}
		}
		must(t, m.Start())
	}
}

// TestStopWaitsForThoseWhoUseTheDescriptor: Destroy closes it right after.
func TestStopWaitsForThoseWhoUseTheDescriptor(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 4096, PCIReadOnly)
	exportOf(t, m, d)
	e := m.exports[0]
	e.guests.Add(1) // one that is just sending the descriptor
	stopped := make(chan error, 1)
	go func() { stopped <- m.Stop() }()
	for gone := false; !gone; {
		exported.mu.Lock()
		gone = exported.at == nil
		exported.mu.Unlock()
		runtime.Gosched()
	}
	select {
	case <-stopped:
		t.Error("Stop returned while the descriptor was in use")
	case <-time.After(20 * time.Millisecond):
		e.guests.Done()
		must(t, <-stopped)
	}
}

func FuzzParseBlob(f *testing.F) {
	b := blob{access: PCIReadOnly, base: 4096, n: 4096, id: 3}
	good := b.bytes()
	f.Add(good)
	f.Add(good[:50])
	f.Add([]byte(blobMagic))
	f.Fuzz(func(t *testing.T, p []byte) {
		for range 2 { // as it is, and with a checksum that is right
			got, wrong := parseBlob(p)
			if wrong == "" && string(got.bytes()) != string(p) {
				t.Errorf("% x was read as %+v", p, got)
			}
			if wrong == "" && (got.n < 1 || got.base+Addr(got.n) < got.base) {
				t.Errorf("%d bytes at %#x", got.n, got.base)
			}
			if len(p) >= ExportSize {
				p = forge(p[:ExportSize], 0, 0)
				copy(p, good[:12])
				copy(p[100:], good[100:])
				p = forge(p, 0, 0)
			}
		}
	})
}

// BenchmarkImport is an import of 4096 bytes and its end.
func BenchmarkImport(b *testing.B) {
	runtimeDir(b)
	d := openCard(b, dpuSide)
	m := shareable(b, d, 4096, PCIReadOnly)
	blob := exportOf(b, m, d)
	for b.Loop() {
		i, err := Import(0, nil, blob, d)
		must(b, err)
		must(b, i.Destroy())
	}
	must(b, m.Destroy())
}
