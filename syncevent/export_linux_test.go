package syncevent

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/testkit/race"
	"github.com/gantry-rdma/gantry/mem"
)

// runtimeDir gives the test, and the processes it starts, a rendezvous of
// their own.
func runtimeDir(t testing.TB) {
	t.Helper()
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
}

// newShared makes an idle event that works here and elsewhere. The other side
// publishes only if that is asked for.
func newShared(t testing.TB, d *device.Device, publishes bool) *Event {
	t.Helper()
	runtimeDir(t)
	e := newEvent(t, d)
	want(t, "remote subscriber", e.AddSubscriber(RemotePCI, nil), nil)
	if publishes {
		want(t, "remote publisher", e.AddPublisher(RemotePCI, nil), nil)
	}
	return e
}

// share makes a started event and returns an export of it.
func share(t testing.TB, d *device.Device, publishes bool) (*Event, []byte) {
	t.Helper()
	e := newShared(t, d, publishes)
	want(t, "start", e.Start(), nil)
	t.Cleanup(func() { want(t, "destroy", e.Destroy(), nil) })
	return e, export(t, e, d)
}

func export(t testing.TB, e *Event, d *device.Device) []byte {
	t.Helper()
	b, err := e.ExportPCI(d)
	want(t, "export", err, nil)
	equal(t, "size", len(b), ExportSize)
	return b
}

// newImport makes an idle event of an export.
func newImport(t testing.TB, b []byte, d *device.Device) *Event {
	t.Helper()
	e, err := Import(b, d)
	want(t, "import", err, nil)
	return e
}

func startImport(t testing.TB, b []byte, d *device.Device) *Event {
	t.Helper()
	e := newImport(t, b, d)
	want(t, "start", e.Start(), nil)
	t.Cleanup(func() { want(t, "destroy", e.Destroy(), nil) })
	return e
}

func TestAnImportIsTheSameValue(t *testing.T) {
	d := openDevice(t)
	a, b := share(t, d, true)
	want(t, "set", a.Set(3), nil)
	i := startImport(t, b, d)
	old, err := i.Add(4)
	want(t, "add", err, nil)
	equal(t, "old", old, 3)
	want(t, "wait", a.Wait(soon(t), Equal, 7, all), nil)
	want(t, "set", i.Set(9), nil)
	v, err := a.Get()
	want(t, "get", err, nil)
	equal(t, "value", v, 9)
}

func TestWithoutARemotePublisherTheOtherSideCannotWrite(t *testing.T) {
	d := openDevice(t)
	a, b := share(t, d, false)
	i := newImport(t, b, d)
	r := newRig(t, i)
	want(t, "set", i.Set(1), core.ErrNotPermitted)
	_, err := i.Add(1)
	want(t, "add", err, core.ErrNotPermitted)
	s, err := i.AllocNotifySet(1)
	want(t, "alloc", err, nil)
	want(t, "try", s.TrySubmit(), core.ErrNotPermitted)
	want(t, "submit", s.Submit(), nil)
	r.notifyAdd(1, 1)
	r.get(2)
	r.progress()
	r.results("all", result{0, core.ErrNotPermitted, 1}, result{1, core.ErrNotPermitted, 0}, result{2, ok, 0})
	want(t, "set by the owner", a.Set(5), nil)
	want(t, "wait", i.Wait(soon(t), Equal, 5, all), nil)

	if race.Enabled {
		return // an atomic that faults inside the race detector ends the process
	}
	i.readOnly = false // as a bug of this package would
	want(t, "set", i.Set(1), core.ErrIOFailed)
	v, err := a.Get()
	want(t, "get", err, nil)
	equal(t, "value", v, 5)
}

func TestOnlyRemoteEventsAreExported(t *testing.T) {
	runtimeDir(t)
	d, other := openDevice(t), openDeviceAt(t, 1)
	e := newEvent(t, d)
	refused := func(what string, code error) {
		t.Helper()
		_, err := e.ExportPCI(d)
		want(t, what, err, code)
	}
	refused("idle", core.ErrBadState)
	want(t, "start", e.Start(), nil)
	refused("local", core.ErrNotSupported)
	want(t, "stop", e.Stop(), nil)
	want(t, "remote", e.AddSubscriber(RemotePCI, nil), nil)
	want(t, "start", e.Start(), nil)
	_, err := e.ExportPCI(nil)
	want(t, "no device", err, core.ErrInvalidValue)
	_, err = e.ExportPCI(other)
	want(t, "another device", err, core.ErrInvalidValue)
	_, err = e.ExportNet()
	want(t, "to another machine", err, core.ErrNotSupported)
	_, err = (*Event)(nil).ExportPCI(d)
	want(t, "nil", err, core.ErrInvalidValue)
	_, err = (*Event)(nil).ExportNet()
	want(t, "nil to another machine", err, core.ErrInvalidValue)

	i := newImport(t, export(t, e, d), d)
	_, err = i.ExportPCI(d)
	want(t, "imported", err, core.ErrNotPermitted)
	want(t, "changed", i.AddPublisher(CPU, d), core.ErrNotPermitted)
	want(t, "destroy", i.Destroy(), nil)
	want(t, "stop", e.Stop(), nil)
	want(t, "an address", e.SetAddr(new(atomic.Uint64)), nil)
	want(t, "start", e.Start(), nil)
	refused("an address", core.ErrNotSupported)
	want(t, "destroy", e.Destroy(), nil)
}

func TestRemoteLocationsAloneCanBeExported(t *testing.T) {
	runtimeDir(t)
	d := openDevice(t)
	e, err := New()
	want(t, "new", err, nil)
	want(t, "publisher", e.AddPublisher(RemotePCI, d), nil)
	want(t, "subscriber", e.AddSubscriber(RemotePCI, nil), nil)
	want(t, "start", e.Start(), nil)
	i := newImport(t, export(t, e, d), d)
	want(t, "start", i.Start(), nil)
	want(t, "set", i.Set(8), nil)
	want(t, "destroy", i.Destroy(), nil)
	want(t, "destroy", e.Destroy(), nil)
}

func TestARightToPublishCanComeLater(t *testing.T) {
	d := openDevice(t)
	e, b := share(t, d, false)
	i := startImport(t, b, d)
	want(t, "set", e.Set(4), nil)
	want(t, "set without the right", i.Set(5), core.ErrNotPermitted)
	want(t, "stop", e.Stop(), nil)
	want(t, "publisher", e.AddPublisher(RemotePCI, nil), nil)
	want(t, "start", e.Start(), nil)
	j := startImport(t, export(t, e, d), d)
	old, err := j.Add(1)
	want(t, "add with the right", err, nil)
	equal(t, "the value came along", old, 4)
	v, err := e.Get()
	want(t, "get", err, nil)
	equal(t, "value", v, 5)
}

func TestTheTwoSidesOfACardShareAnEvent(t *testing.T) {
	runtimeDir(t)
	host, dpu, other := openNamed(t, "gantry_host0"), openNamed(t, "gantry_dpu0"), openNamed(t, "gantry_dpu1")
	e := newShared(t, host, true)
	want(t, "start", e.Start(), nil)
	b := export(t, e, host)
	_, err := Import(b, other)
	want(t, "another card", err, core.ErrNotPermitted)
	i := newImport(t, b, dpu)
	want(t, "start", i.Start(), nil)
	want(t, "set", i.Set(6), nil)
	want(t, "wait", e.Wait(soon(t), Equal, 6, all), nil)
	want(t, "destroy", i.Destroy(), nil)
	want(t, "destroy", e.Destroy(), nil)
}

// openNamed opens a device by its name.
func openNamed(t *testing.T, name string) *device.Device {
	t.Helper()
	infos, err := device.List()
	want(t, "list the devices", err, nil)
	for i, info := range infos {
		if info.IBDev() == name {
			return openDeviceAt(t, i)
		}
	}
	t.Skipf("there is no %s", name)
	return nil
}

func TestCapabilities(t *testing.T) {
	d := openDevice(t)
	want(t, "supported", Supported(d.Info()), nil)
	want(t, "export", ExportPCISupported(d.Info()), nil)
	want(t, "export to another machine", ExportNetSupported(d.Info()), core.ErrNotSupported)
	want(t, "nil", ExportPCISupported(nil), core.ErrInvalidValue)
	want(t, "nil", ExportNetSupported(nil), core.ErrInvalidValue)
}

func TestDamagedExportsAreRefused(t *testing.T) {
	d := openDevice(t)
	_, b := share(t, d, true)
	refused := func(what string, b []byte, code error) {
		t.Helper()
		_, err := Import(b, d)
		want(t, what, err, code)
	}
	for at := range b {
		bad := append([]byte(nil), b...)
		bad[at] ^= 0x10
		if _, err := Import(bad, d); err == nil {
			t.Fatalf("with byte %d turned it was imported", at)
		}
	}
	// A checksum that is right proves nothing.
	forged := func(off uint64, inner ...byte) []byte {
		bad := append([]byte(nil), b...)
		binary.LittleEndian.PutUint64(bad[8:], off)
		copy(bad[exportHead+60:], inner)
		end := len(bad) - exportTail
		binary.LittleEndian.PutUint32(bad[end:], crc32.ChecksumIEEE(bad[:end]))
		return bad
	}
	refused("off the map", forged(1<<20), core.ErrInvalidValue)
	refused("at its end", forged(8), core.ErrInvalidValue)
	refused("odd", forged(4), core.ErrInvalidValue)
	refused("far off", forged(all-7), core.ErrInvalidValue)
	refused("inside", forged(0, 1, 2, 3), core.ErrInvalidValue)
	refused("none", nil, core.ErrInvalidValue)
	refused("cut", b[:len(b)-1], core.ErrInvalidValue)
	refused("long", append(append([]byte(nil), b...), 0), core.ErrInvalidValue)
	_, err := Import(b, nil)
	want(t, "no device", err, core.ErrInvalidValue)
	want(t, "the real one", newImport(t, b, d).Destroy(), nil)
}

func TestAnExportEndsWithTheStopOfItsOwner(t *testing.T) {
	d := openDevice(t)
	a, b := share(t, d, true)
	i := startImport(t, b, d)
	ended := make(chan error)
	for _, w := range waits {
		go func() { ended <- w.wait(i, soon(t), Equal, 1, all) }()
	}
	r := newRig(t, newImport(t, b, d))
	r.waitFor(1, Equal, 1, all)
	r.waitFor(2, Greater, 1, all)
	r.progress()
	want(t, "stop", a.Stop(), nil)
	r.run(2)
	r.results("tasks", result{1, core.ErrConnectionReset, 0}, result{2, core.ErrConnectionReset, 0})
	want(t, "shut down", r.life.Shutdown(soon(t)), nil)
	want(t, "start", r.life.Start(), core.ErrConnectionReset)
	for range waits {
		want(t, "wait", <-ended, core.ErrConnectionReset)
	}
	_, err := i.Get()
	want(t, "get", err, core.ErrConnectionReset)
	want(t, "set", i.Set(1), core.ErrConnectionReset)
	_, err = Import(b, d)
	want(t, "import again", err, core.ErrNotPermitted)
	want(t, "start", a.Start(), nil)
	_, err = Import(b, d)
	want(t, "a new start makes new exports", err, core.ErrNotPermitted)
	want(t, "the new export", newImport(t, export(t, a, d), d).Destroy(), nil)
}

// TestTheLastValueOfAnOwnerCounts publishes and stops at once.
func TestTheLastValueOfAnOwnerCounts(t *testing.T) {
	d := openDevice(t)
	a, b := share(t, d, true)
	r := newRig(t, newImport(t, b, d))
	i := startImport(t, b, d)
	r.waitFor(1, Equal, 1, all)
	r.waitFor(2, Equal, 2, all)
	r.progress()
	ended := make(chan error)
	for _, w := range waits {
		go func() { ended <- w.wait(i, soon(t), Equal, 1, all) }()
	}
	for i.calls.Load() != open+int64(len(waits)) {
		runtime.Gosched()
	}
	want(t, "set", a.Set(1), nil)
	want(t, "stop", a.Stop(), nil)
	for !i.lost() || !r.lost() {
		runtime.Gosched()
	}
	r.run(2)
	r.results("tasks", result{1, ok, 1}, result{2, core.ErrConnectionReset, 1})
	for range waits {
		want(t, "wait", <-ended, nil)
	}
}

// TestAnExportBeginsToLookForItself has an engine that sleeps without a timer
// when its event is exported.
func TestAnExportBeginsToLookForItself(t *testing.T) {
	d := openDevice(t)
	r := newRig(t, newShared(t, d, true))
	r.waitFor(1, Equal, 1, all)
	r.progress()
	want(t, "request", r.engine.RequestNotification(), nil)
	i := startImport(t, export(t, r.Event, d), d)
	want(t, "set", i.Set(1), nil)
	want(t, "wait", r.engine.Wait(soon(t)), nil)
	want(t, "clear", r.engine.ClearNotification(), nil)
	r.progress()
	r.results("woken", result{1, ok, 1})
}

// TestAStopEndsTheLookingOfAnExport: who was told of the value cannot reach it
// any more.
func TestAStopEndsTheLookingOfAnExport(t *testing.T) {
	d := openDevice(t)
	e, _ := share(t, d, true)
	if !e.shared.Load() {
		t.Error("the export is not looked at")
	}
	want(t, "stop", e.Stop(), nil)
	want(t, "start", e.Start(), nil)
	if e.shared.Load() {
		t.Error("what is not exported any more is looked at")
	}
	_ = export(t, e, d)
	if !e.shared.Load() {
		t.Error("the second export is not looked at")
	}
}

// sharedBuf is a buf of 8 bytes, 16 bytes into shareable memory.
func sharedBuf(t *testing.T, d *device.Device, a mem.Access) (*mem.Map, *mem.Buf) {
	t.Helper()
	m, err := mem.NewMap()
	want(t, "map", err, nil)
	want(t, "allocate", m.Allocate(4096, mem.AllocOptions{Shareable: true}), nil)
	want(t, "access", m.SetAccess(a), nil)
	want(t, "device", m.AddDevice(d), nil)
	want(t, "start", m.Start(), nil)
	return m, take(t, m, 16, 8)
}

func TestAnEventInABufIsExportedWithItsMap(t *testing.T) {
	d := openDevice(t)
	e := newShared(t, d, true)
	m, b := sharedBuf(t, d, mem.LocalReadWrite|mem.PCIReadWrite)
	want(t, "set the buf", e.SetBuf(b), nil)
	want(t, "start", e.Start(), nil)
	i := newImport(t, export(t, e, d), d)
	want(t, "start", i.Start(), nil)
	want(t, "set", i.Set(77), nil)
	equal(t, "byte 16", m.Bytes()[16]+m.Bytes()[23], 77)

	// The same through a map that the other side imports by itself.
	x, err := m.ExportPCI(d)
	want(t, "export the map", err, nil)
	im, err := mem.Import(0, nil, x, d)
	want(t, "import the map", err, nil)
	j := newEvent(t, d)
	b2 := take(t, im, 16, 8)
	want(t, "set the buf", j.SetBuf(b2), nil)
	want(t, "start", j.Start(), nil)
	old, err := j.Add(1)
	want(t, "add", err, nil)
	equal(t, "old", old, 77)
	want(t, "destroy", i.Destroy(), nil)
	want(t, "destroy", e.Destroy(), nil)
	_, err = b.Unref()
	want(t, "unref", err, nil)
	want(t, "destroy the map", m.Destroy(), nil)
	want(t, "the owner is gone", j.Wait(soon(t), Equal, 1, all), core.ErrConnectionReset)
	want(t, "stop", j.Stop(), nil)
	want(t, "start", j.Start(), core.ErrConnectionReset)
	want(t, "destroy", j.Destroy(), nil)
	_, err = b2.Unref()
	want(t, "unref", err, nil)
	want(t, "destroy the import", im.Destroy(), nil)
}

func TestAnExportedBufNeedsTheRights(t *testing.T) {
	d := openDevice(t)
	e := newShared(t, d, true)
	m, b := sharedBuf(t, d, mem.LocalReadWrite|mem.PCIReadOnly)
	want(t, "set the buf", e.SetBuf(b), nil)
	want(t, "start", e.Start(), nil)
	_, err := e.ExportPCI(d)
	want(t, "export", err, core.ErrNotPermitted)
	want(t, "destroy", e.Destroy(), nil)
	_, _ = b.Unref()
	want(t, "destroy the map", m.Destroy(), nil)
}

// TestAValueThatIsTakenAwayFailsWhatNeedsIt truncates the file under it.
func TestAValueThatIsTakenAwayFailsWhatNeedsIt(t *testing.T) {
	if race.Enabled {
		t.Skip("an atomic that faults inside the race detector ends the process")
	}
	d := openDevice(t)
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "value"), os.O_CREATE|os.O_RDWR, 0o600)
	want(t, "file", err, nil)
	defer f.Close()
	want(t, "size", f.Truncate(4096), nil)
	m, err := mem.NewMap()
	want(t, "map", err, nil)
	want(t, "map the file", m.MapFile(f, 0, 4096, true), nil)
	want(t, "device", m.AddDevice(d), nil)
	want(t, "start", m.Start(), nil)
	b := take(t, m, 0, 8)
	t.Cleanup(func() {
		_, err := b.Unref()
		want(t, "unref", err, nil)
		want(t, "destroy the map", m.Destroy(), nil)
	})
	e := newEvent(t, d)
	want(t, "set the buf", e.SetBuf(b), nil)
	r := newRig(t, e)
	want(t, "set", e.Set(1), nil)
	r.waitFor(1, Equal, 2, all)
	r.progress()
	want(t, "truncate", f.Truncate(0), nil)
	want(t, "set", e.Set(1), core.ErrIOFailed)
	_, err = e.Get()
	want(t, "get", err, core.ErrIOFailed)
	_, err = e.Add(1)
	want(t, "add", err, core.ErrIOFailed)
	want(t, "wait", e.WaitYield(soon(t), Equal, 2, all), core.ErrIOFailed)
	r.progress()
	r.results("tasks", result{1, core.ErrIOFailed, 1})
}

// TestDestroyWaitsForCallsInTheMiddle gives the memory back while others work
// on the value: no call may reach it any more.
func TestDestroyWaitsForCallsInTheMiddle(t *testing.T) {
	runtimeDir(t)
	d := openDevice(t)
	for range 50 {
		e := newShared(t, d, true)
		want(t, "start", e.Start(), nil)
		var wg sync.WaitGroup
		var busy atomic.Int32
		for _, call := range []func() error{
			func() error { _, err := e.Add(1); return err },
			func() error { return e.Wait(soon(t), Equal, all, all) },
			func() error { return e.WaitYield(soon(t), Equal, all, all) },
		} {
			wg.Go(func() {
				var err error
				for busy.Add(1); err == nil; {
					err = call()
				}
				if err != error(core.ErrBadState) {
					t.Errorf("got %v, want %v", err, core.ErrBadState)
				}
			})
		}
		for busy.Load() < 3 {
			runtime.Gosched()
		}
		want(t, "destroy", e.Destroy(), nil)
		wg.Wait()
	}
}

// TestExportsAndImportsLeakNothing counts descriptors and mappings.
func TestExportsAndImportsLeakNothing(t *testing.T) {
	d := openDevice(t)
	e := newShared(t, d, true)
	round := func() {
		want(t, "start", e.Start(), nil)
		b := export(t, e, d)
		i := newImport(t, b, d)
		want(t, "start", i.Start(), nil)
		want(t, "set", i.Set(1), nil)
		want(t, "stop", e.Stop(), nil)
		_, err := Import(b, d)
		want(t, "import", err, core.ErrNotPermitted)
		want(t, "destroy", i.Destroy(), nil)
	}
	round()
	files, maps := held(t)
	for range 30 {
		round()
	}
	f, m := held(t)
	equal(t, "descriptors", f, files)
	equal(t, "mappings", m, maps)
	want(t, "destroy", e.Destroy(), nil)
	f, m = held(t)
	if f >= files || m >= maps {
		t.Errorf("after destroy: got %d descriptors and %d mappings, want less than %d and %d", f, m, files, maps)
	}
}

// held counts the descriptors of the process, and its mappings of shareable
// memory.
func held(t *testing.T) (files, maps int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	want(t, "descriptors", err, nil)
	b, err := os.ReadFile("/proc/self/maps")
	want(t, "mappings", err, nil)
	return len(list), strings.Count(string(b), "memfd:")
}
