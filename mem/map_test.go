package mem

import (
	"errors"
	"math"
	"os"
	"reflect"
	"syscall"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

func emptyMap(t testing.TB) *Map {
	t.Helper()
	m, err := NewMap()
	must(t, err)
	return m
}

func destroyedMap(t testing.TB) *Map {
	t.Helper()
	m := emptyMap(t)
	must(t, m.Destroy())
	return m
}

func TestMapStateCodes(t *testing.T) {
	var none *Map
	fresh, set, started, gone := emptyMap(t), newMap(t, 64), startedMap(t, 64), destroyedMap(t)
	inUse := startedMap(t, 64)
	take(t, startedInventory(t, 1), inUse, 0, 64)
	checkCodes(t, []codeTest{
		{"start nil", none.Start(), core.ErrInvalidValue},
		{"start without memory", fresh.Start(), core.ErrInvalidValue},
		{"start", set.Start(), core.Success},
		{"start twice", set.Start(), core.ErrNotPermitted},
		{"start destroyed", gone.Start(), core.ErrBadState},
		{"stop nil", none.Stop(), core.ErrInvalidValue},
		{"stop stopped", fresh.Stop(), core.Success},
		{"stop started", started.Stop(), core.Success},
		{"stop with a buf alive", inUse.Stop(), core.ErrNotPermitted},
		{"stop destroyed", gone.Stop(), core.ErrBadState},
		{"start again", started.Start(), core.Success},
		{"destroy nil", none.Destroy(), core.ErrInvalidValue},
		{"destroy with a buf alive", inUse.Destroy(), core.ErrNotPermitted},
		{"destroy started", started.Destroy(), core.Success},
		{"destroy twice", started.Destroy(), core.ErrBadState},
	})
	if !inUse.Started() || inUse.Bufs() != 1 {
		t.Errorf("a refused stop changed the map: started %v, %d bufs", inUse.Started(), inUse.Bufs())
	}
}

func TestMapMemoryCodes(t *testing.T) {
	var none *Map
	b := make([]byte, 64)
	started, gone, set := startedMap(t, 64), destroyedMap(t), newMap(t, 64)
	checkCodes(t, []codeTest{
		{"range of nil map", none.SetRange(b), core.ErrInvalidValue},
		{"nil range", emptyMap(t).SetRange(nil), core.ErrInvalidValue},
		{"empty range", emptyMap(t).SetRange(b[:0]), core.ErrInvalidValue},
		{"range", emptyMap(t).SetRange(b), core.Success},
		{"range set twice", set.SetRange(b), core.ErrNotPermitted},
		{"range while started", started.SetRange(b), core.ErrBadState},
		{"range of destroyed map", gone.SetRange(b), core.ErrBadState},
		{"allocate nothing", emptyMap(t).Allocate(0, AllocOptions{}), core.ErrInvalidValue},
		{"allocate less", emptyMap(t).Allocate(-1, AllocOptions{}), core.ErrInvalidValue},
		{"allocate too much", emptyMap(t).Allocate(math.MaxInt, AllocOptions{}), core.ErrNoMemory},
		{"allocate twice", set.Allocate(1, AllocOptions{}), core.ErrNotPermitted},
		{"allocate while started", started.Allocate(1, AllocOptions{}), core.ErrBadState},
		{"dma-buf", emptyMap(t).SetDMABuf(0, 0, 64), core.ErrNotSupported},
		{"ask for no range", third(emptyMap(t).Range()), core.ErrBadState},
		{"ask nil for its range", third(none.Range()), core.ErrInvalidValue},
		{"ask destroyed for its range", third(gone.Range()), core.ErrBadState},
		{"ask for the range", third(set.Range()), core.Success},
	})
}

func third[A, B any](_ A, _ B, err error) error { return err }

func TestMapDeviceCodes(t *testing.T) {
	var none *Map
	d, other := openDevice(t, 0), openDevice(t, 1)
	started, gone := startedMap(t, 64), destroyedMap(t)
	m := newMap(t, 64)
	checkCodes(t, []codeTest{
		{"add to nil map", none.AddDevice(d), core.ErrInvalidValue},
		{"add nil", m.AddDevice(nil), core.ErrInvalidValue},
		{"add zero device", m.AddDevice(&device.Device{}), core.ErrInvalidValue},
		{"add", m.AddDevice(d), core.Success},
		{"add twice", m.AddDevice(d), core.ErrAlreadyExists},
		{"max of none", m.SetMaxDevices(0), core.ErrInvalidValue},
		{"max of one", m.SetMaxDevices(1), core.Success},
		{"add above the limit", m.AddDevice(other), core.ErrNoMemory},
		{"max of two", m.SetMaxDevices(2), core.Success},
		{"add within the limit", m.AddDevice(other), core.Success},
		{"max below what is there", m.SetMaxDevices(1), core.ErrInvalidValue},
		{"remove nil", m.RemoveDevice(nil), core.ErrInvalidValue},
		{"remove", m.RemoveDevice(d), core.Success},
		{"remove twice", m.RemoveDevice(d), core.ErrNotFound},
		{"add while started", started.AddDevice(d), core.ErrNotPermitted},
		{"remove while started", started.RemoveDevice(d), core.ErrNotPermitted},
		{"max while started", started.SetMaxDevices(3), core.ErrNotPermitted},
		{"add to destroyed", gone.AddDevice(d), core.ErrBadState},
	})
	if m.HasDevice(d) || !m.HasDevice(other) || m.HasDevice(nil) || m.MaxDevices() != 2 {
		t.Errorf("has removed %v, has added %v, has nil %v, max %d",
			m.HasDevice(d), m.HasDevice(other), m.HasDevice(nil), m.MaxDevices())
	}
	must(t, started.Stop())
	checkCodes(t, []codeTest{
		{"max after the first start", started.SetMaxDevices(3), core.ErrNotPermitted},
		{"add after a stop", started.AddDevice(d), core.Success},
	})
	must(t, m.Destroy())
	must(t, started.Destroy())
}

func TestMapSetterCodes(t *testing.T) {
	var none *Map
	started, gone, m := startedMap(t, 64), destroyedMap(t), newMap(t, 64)
	free := func([]byte, any) {}
	checkCodes(t, []codeTest{
		{"access of nil", none.SetAccess(0), core.ErrInvalidValue},
		{"access with an unknown bit", m.SetAccess(1 << 7), core.ErrInvalidValue},
		{"access with both PCI rights", m.SetAccess(PCIReadOnly | PCIReadWrite), core.ErrInvalidValue},
		{"access", m.SetAccess(PCIReadWrite | PCIRelaxedOrdering | RDMARead), core.Success},
		{"access while started", started.SetAccess(0), core.ErrBadState},
		{"access of destroyed", gone.SetAccess(0), core.ErrBadState},
		{"nil callback", m.SetFreeCallback(nil, nil), core.ErrInvalidValue},
		{"callback", m.SetFreeCallback(free, nil), core.Success},
		{"callback while started", started.SetFreeCallback(free, nil), core.ErrBadState},
		{"user data", m.SetUserData(7, "seven"), core.Success},
		{"user data of nil", none.SetUserData(0, nil), core.ErrInvalidValue},
		{"user data while started", started.SetUserData(0, nil), core.ErrBadState},
		{"thread safety", m.EnableThreadSafety(), core.Success},
		{"thread safety of nil", none.EnableThreadSafety(), core.ErrInvalidValue},
		{"thread safety while started", started.EnableThreadSafety(), core.ErrNotPermitted},
	})
	if word, v := m.UserData(); word != 7 || v != "seven" {
		t.Errorf("user data is %d, %v", word, v)
	}
	if got := m.Access(); got != PCIReadWrite|PCIRelaxedOrdering|RDMARead {
		t.Errorf("refused setters changed the access to %v", got)
	}
}

func TestAccessNamesItsBits(t *testing.T) {
	for a, want := range map[Access]string{
		LocalReadOnly:             "LocalReadOnly",
		LocalReadWrite | RDMARead: "LocalReadWrite|RDMARead",
		PCIReadOnly | 1<<9:        "PCIReadOnly|0x200",
		allAccess:                 "LocalReadWrite|RDMARead|RDMAWrite|RDMAAtomic|PCIReadOnly|PCIReadWrite|PCIRelaxedOrdering",
	} {
		if got := a.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMapHoldsItsDevicesUntilDestroy(t *testing.T) {
	infos, err := device.List()
	must(t, err)
	d, err := device.Open(infos[len(infos)-1])
	must(t, err)
	m := newMap(t, 64)
	must(t, m.AddDevice(d))
	if err := d.Close(); !errors.Is(err, core.ErrInUse) {
		t.Errorf("close of a device in a map: %v, want %v", err, core.ErrInUse)
	}
	must(t, m.RemoveDevice(d))
	must(t, m.AddDevice(d))
	must(t, m.Start())
	must(t, m.Destroy())
	must(t, d.Close())
	if err := newMap(t, 64).AddDevice(d); !errors.Is(err, core.ErrBadState) {
		t.Errorf("adding a closed device: %v, want %v", err, core.ErrBadState)
	}
}

func TestFreeCallbackRunsOnlyForMemoryThatWasShown(t *testing.T) {
	type call struct {
		n      int
		opaque any
	}
	for _, tt := range []struct {
		name  string
		steps func(m *Map, set func(opaque any))
		want  []call
	}{
		{"never started", func(m *Map, set func(any)) { set(1) }, nil},
		{"started", func(m *Map, set func(any)) { set(1); must(t, m.Start()) }, []call{{64, 1}}},
		{"stopped again", func(m *Map, set func(any)) { set(1); must(t, m.Start()); must(t, m.Stop()) }, []call{{64, 1}}},
		{"changed since", func(m *Map, set func(any)) { set(1); must(t, m.Start()); must(t, m.Stop()); set(2) }, nil},
		{"changed and started", func(m *Map, set func(any)) {
			set(1)
			must(t, m.Start())
			must(t, m.Stop())
			set(2)
			must(t, m.Start())
		}, []call{{64, 2}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, calls := newMap(t, 64), []call(nil)
			tt.steps(m, func(opaque any) {
				must(t, m.SetFreeCallback(func(b []byte, opaque any) { calls = append(calls, call{len(b), opaque}) }, opaque))
			})
			if calls != nil {
				t.Errorf("called before Destroy: %v", calls)
			}
			must(t, m.Destroy())
			if !reflect.DeepEqual(calls, tt.want) {
				t.Errorf("calls %v, want %v", calls, tt.want)
			}
		})
	}
}

func TestMapKnowsItsRange(t *testing.T) {
	b := make([]byte, 300)
	m := emptyMap(t)
	if m.Bytes() != nil {
		t.Error("a map without memory has bytes")
	}
	must(t, m.SetRange(b[1:200]))
	at, n, err := m.Range()
	if at != AddrOf(b)+1 || n != 199 || err != nil {
		t.Errorf("range %#x, %d, %v, want %#x, 199", at, n, err, AddrOf(b)+1)
	}
	if got := m.Bytes(); len(got) != 199 || cap(got) != 199 || &got[0] != &b[1] {
		t.Errorf("bytes: len %d, cap %d", len(got), cap(got))
	}
	if m.Aligned() || m.Faulting() {
		t.Errorf("199 bytes of the heap: aligned %v, faulting %v", m.Aligned(), m.Faulting())
	}
	must(t, m.Destroy())
	if m.Bytes() != nil {
		t.Error("a destroyed map has bytes")
	}
}

func TestAllocatedMemoryIsZeroAndAligned(t *testing.T) {
	for _, o := range []AllocOptions{{}, {HugePages: true}} {
		m := emptyMap(t)
		must(t, m.Allocate(4096, o))
		must(t, m.Start())
		if !m.Aligned() || m.Bytes()[4095] != 0 || m.Faulting() || m.Access() != LocalReadWrite {
			t.Errorf("%+v: aligned %v, faulting %v, access %v", o, m.Aligned(), m.Faulting(), m.Access())
		}
		m.Bytes()[4095] = 1
		must(t, m.Destroy())
	}
}

func TestErrorsOfTheSystemKeepTheirMeaning(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want core.Status
	}{
		{errors.ErrUnsupported, core.ErrNotSupported},
		{os.NewSyscallError("mmap", syscall.ENOMEM), core.ErrNoMemory},
		{os.NewSyscallError("fallocate", syscall.ENOSPC), core.ErrNoMemory},
		{os.NewSyscallError("mmap", syscall.EACCES), core.ErrNotPermitted},
		{os.NewSyscallError("mmap", syscall.EPERM), core.ErrNotPermitted},
		{os.NewSyscallError("mmap", syscall.ENFILE), core.ErrOperatingSystem},
	} {
		if got := memoryStatus(tt.err); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.err, got, tt.want)
		}
	}
}
