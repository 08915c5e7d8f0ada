package mem

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/sys"
	"golang.org/x/sys/unix"
)

// runtimeDir gives the test a directory of its own for names, and checks at its
// end that nothing was left: no file, no descriptor, no mapping.
func runtimeDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	t.Setenv("GANTRY_RUNTIME_DIR", dir)
	// The poller of the runtime opens its descriptors with the first socket.
	if p, err := os.Open("/dev/null"); err == nil {
		p.Close()
	}
	descriptors, maps := entries("/proc/self/fd"), sharedMappings(t)
	t.Cleanup(func() {
		if n := entries(dir); n != 0 {
			t.Errorf("%d files of names are left", n)
		}
		if n := entries("/proc/self/fd"); n > descriptors {
			t.Errorf("%d descriptors are open, %d were before", n, descriptors)
		}
		if n := sharedMappings(t); n != maps {
			t.Errorf("%d shared mappings, %d were before", n, maps)
		}
	})
	return dir
}

func entries(dir string) int {
	e, _ := os.ReadDir(dir)
	return len(e)
}

func sharedMappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	return bytes.Count(b, []byte("memfd:gantry"))
}

// openCard opens a device by its address until the end of the test.
func openCard(t testing.TB, pci string) *device.Device {
	t.Helper()
	d, err := device.OpenPCI(pci, nil)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// The devices of the tests: the two sides of a card, and another card.
const (
	dpuSide, hostSide   = "03:00.0", "07:00.0"
	otherDPU, otherHost = "03:00.1", "07:00.1"
)

// shareable returns a started map of n bytes, where byte i is byte(i), that can
// be exported for d.
func shareable(t testing.TB, d *device.Device, n int, a Access) *Map {
	t.Helper()
	m, err := NewMap()
	must(t, err)
	must(t, m.Allocate(n, AllocOptions{Shareable: true}))
	for i := range m.Bytes() {
		m.Bytes()[i] = byte(i)
	}
	must(t, m.SetAccess(a))
	must(t, m.AddDevice(d))
	must(t, m.Start())
	t.Cleanup(func() { _ = m.Destroy() })
	return m
}

func exportOf(t testing.TB, m *Map, d *device.Device) []byte {
	t.Helper()
	p, err := m.ExportPCI(d)
	must(t, err)
	if len(p) != ExportSize || len(p) >= 512 {
		t.Errorf("the export has %d bytes", len(p))
	}
	return p
}

func TestAnImportIsTheMemoryOfTheOwner(t *testing.T) {
	for _, sides := range [][2]string{{hostSide, dpuSide}, {dpuSide, hostSide}, {dpuSide, dpuSide}} {
		runtimeDir(t)
		owner, guest := openCard(t, sides[0]), openCard(t, sides[1])
		m := shareable(t, owner, 5000, LocalReadWrite|PCIReadWrite|PCIRelaxedOrdering)
		if m.Exported() {
			t.Error("exported before the export")
		}
		i, err := Import(7, "user", exportOf(t, m, owner), guest)
		if err != nil {
			t.Fatalf("from %s to %s: %v", sides[0], sides[1], err)
		}
		base, n, err := i.Range()
		if base != m.base || n != 5000 || err != nil || AddrOf(i.Bytes()) == base {
			t.Errorf("range %#x of %d, %v, want the owner's", base, n, err)
		}
		i.Bytes()[4999] = 200
		m.Bytes()[0] = 201
		if m.Bytes()[4999] != 200 || i.Bytes()[0] != 201 {
			t.Error("the two do not share")
		}
		word, value := i.UserData()
		if word != 7 || value != "user" || !i.HasDevice(guest) || i.Access() != PCIReadWrite {
			t.Errorf("user data %d, %v, access %s", word, value, i.Access())
		}
		if !m.Exported() || m.Imported() || i.Exported() || !i.Imported() || !i.Started() || i.Revoked() || m.Revoked() {
			t.Error("the questions have wrong answers")
		}
		if !i.Faulting() || !m.Faulting() {
			t.Error("memory that others can punch holes into counts as safe")
		}
		must(t, i.Destroy())
		must(t, m.Destroy())
	}
}

func TestBufsOfAnImportGoByTheOwnersAddresses(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 4096, PCIReadOnly)
	i, err := Import(0, nil, exportOf(t, m, d), d)
	must(t, err)
	inv := startedInventory(t, 2)
	b, err := inv.ByData(i, m.base+100, 50)
	must(t, err)
	if b.HeadAddr() != m.base+100 || b.Data()[0] != 100 || i.Bufs() != 1 {
		t.Errorf("buf at %#x, data %d", b.HeadAddr(), b.Data()[0])
	}
	checkCodes(t, []codeTest{
		{"by the importer's address", second(inv.ByAddr(i, AddrOf(i.Bytes()), 1)), core.ErrInvalidValue},
		{"a byte behind", second(inv.ByAddr(i, m.base+4096, 1)), core.ErrInvalidValue},
		{"destroy with a buf", i.Destroy(), core.ErrNotPermitted},
		{"stop", i.Stop(), core.ErrNotPermitted},
		{"start", i.Start(), core.ErrNotPermitted},
		{"add device", i.AddDevice(openCard(t, hostSide)), core.ErrNotPermitted},
		{"remove device", i.RemoveDevice(d), core.ErrNotPermitted},
		{"set access", i.SetAccess(PCIReadWrite), core.ErrBadState},
		{"set range", i.SetRange([]byte{1}), core.ErrBadState},
		{"export", second(i.ExportPCI(d)), core.ErrNotPermitted},
	})
	if _, _, _, err := i.Descriptor(); core.StatusOf(err) != core.ErrNotPermitted {
		t.Errorf("descriptor: %v", err)
	}
	for range 2 {
		must(t, b.Lend())
	}
	b.Return()
	b.Return()
	if n := testing.AllocsPerRun(100, func() { _ = b.LendToWrite(); b.Return() }); n != 0 {
		t.Errorf("a loan allocates %v times", n)
	}
	_, err = b.Unref()
	must(t, err)
	must(t, i.Destroy())
	checkCodes(t, []codeTest{
		{"destroy twice", i.Destroy(), core.ErrBadState},
		{"a buf of a destroyed import", second(inv.ByAddr(i, m.base, 1)), core.ErrBadState},
	})
}

func TestExportCodes(t *testing.T) {
	runtimeDir(t)
	var none *Map
	d, other := openCard(t, dpuSide), openCard(t, otherDPU)
	with := func(prepare func(m *Map) error, a Access, start bool) *Map {
		m, err := NewMap()
		must(t, err)
		must(t, prepare(m))
		must(t, m.SetAccess(a))
		must(t, m.AddDevice(d))
		if start {
			must(t, m.Start())
		}
		t.Cleanup(func() { _ = m.Destroy() })
		return m
	}
	good := func(m *Map) error { return m.Allocate(64, AllocOptions{Shareable: true}) }
	heap := func(m *Map) error { return m.SetRange(make([]byte, 64)) }
	private := func(m *Map) error { return m.Allocate(64, AllocOptions{}) }
	file := func(m *Map) error { return m.MapFile(tempFile(t, 64, os.O_RDWR), 0, 64, true) }
	destroyed := with(good, PCIReadOnly, true)
	must(t, destroyed.Destroy())
	m := with(good, PCIReadOnly, true)
	checkCodes(t, []codeTest{
		{"nil map", second(none.ExportPCI(d)), core.ErrInvalidValue},
		{"nil device", second(m.ExportPCI(nil)), core.ErrInvalidValue},
		{"a device that it does not have", second(m.ExportPCI(other)), core.ErrNotFound},
		{"not started", second(with(good, PCIReadOnly, false).ExportPCI(d)), core.ErrNotPermitted},
		{"no PCI right", second(with(good, LocalReadWrite|RDMAWrite, true).ExportPCI(d)), core.ErrNotPermitted},
		{"destroyed", second(destroyed.ExportPCI(d)), core.ErrBadState},
		{"a good one", second(m.ExportPCI(d)), core.Success},
		{"supported, nil", ExportPCISupported(nil), core.ErrInvalidValue},
		{"supported, zero", ImportPCISupported(&device.Info{}), core.ErrNotSupported},
		{"supported", ImportPCISupported(d.Info()), core.Success},
	})
	for what, prepare := range map[string]func(*Map) error{"a slice": heap, "private memory": private, "a file": file} {
		_, err := with(prepare, PCIReadOnly, true).ExportPCI(d)
		if core.StatusOf(err) != core.ErrNotSupported || !strings.Contains(err.Error(), "Shareable") {
			t.Errorf("%s: %v, want %v and what to use", what, err, core.ErrNotSupported)
		}
		if _, _, _, err := with(prepare, PCIReadOnly, true).Descriptor(); core.StatusOf(err) != core.ErrNotSupported {
			t.Errorf("descriptor of %s: %v", what, err)
		}
	}
	if !bytes.Equal(exportOf(t, m, d), exportOf(t, m, d)) {
		t.Error("a second export for the same device is another one")
	}
}

func TestARightThatWasSharedIsFinal(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	for first, then := range map[Access]Access{PCIReadOnly: PCIReadWrite, PCIReadWrite: PCIReadOnly} {
		m := shareable(t, d, 64, first)
		exportOf(t, m, d)
		must(t, m.Stop())
		must(t, m.SetAccess(then))
		must(t, m.Start())
		if _, err := m.ExportPCI(d); core.StatusOf(err) != core.ErrNotPermitted || !strings.Contains(err.Error(), "final") {
			t.Errorf("%s after %s: %v", then, first, err)
		}
		must(t, m.Stop())
		must(t, m.SetAccess(first|LocalReadWrite))
		must(t, m.Start())
		exportOf(t, m, d)
		must(t, m.Destroy())
	}
}

func TestDescriptorIsSealed(t *testing.T) {
	d := openCard(t, dpuSide)
	for a, seal := range map[Access]int{PCIReadOnly: unix.F_SEAL_FUTURE_WRITE, PCIReadWrite: 0} {
		m := shareable(t, d, 5000, a)
		fd, base, n, err := m.Descriptor()
		if err != nil || base != m.base || n != 5000 {
			t.Fatalf("%#x, %d: %v", base, n, err)
		}
		want := seal | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
		if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); seals != want || err != nil {
			t.Errorf("%s: seals %#x, %v, want %#x", a, seals, err, want)
		}
		if m.Exported() {
			t.Error("a descriptor counts as an export")
		}
		if n := testing.AllocsPerRun(10, func() { _, _, _, _ = m.Descriptor() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		must(t, m.Destroy())
	}
}

func TestAReadOnlyImportCannotBeWritten(t *testing.T) {
	runtimeDir(t)
	d := openCard(t, dpuSide)
	m := shareable(t, d, 4096, LocalReadWrite|PCIReadOnly)
	i, err := Import(0, nil, exportOf(t, m, d), d)
	must(t, err)
	if n, ok := sys.Copy(i.Bytes(), []byte{9}); n != 0 || ok {
		t.Errorf("a copy wrote %d bytes, %v", n, ok)
	}
	if sys.Guard(func() { i.Bytes()[1]++ }) {
		t.Error("a write went through")
	}
	if m.Bytes()[0] != 0 || m.Bytes()[1] != 1 || i.Access() != PCIReadOnly {
		t.Errorf("the owner sees %v, access %s", m.Bytes()[:2], i.Access())
	}
	m.Bytes()[0] = 5
	if i.Bytes()[0] != 5 {
		t.Error("what the owner writes does not arrive")
	}
	must(t, i.Destroy())
}
