package mem

import (
	"errors"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends the test when a call failed that is not its subject.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newMap returns a stopped map over n bytes, where byte i is byte(i).
func newMap(t testing.TB, n int) *Map {
	t.Helper()
	m, err := NewMap()
	must(t, err)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	must(t, m.SetRange(b))
	return m
}

func startedMap(t testing.TB, n int) *Map {
	t.Helper()
	m := newMap(t, n)
	must(t, m.Start())
	return m
}

func startedInventory(t testing.TB, n int) *Inventory {
	t.Helper()
	i, err := NewInventory(n)
	must(t, err)
	must(t, i.Start())
	return i
}

// take takes a buf whose n bytes, at offset off of m, are all data.
func take(t testing.TB, i *Inventory, m *Map, off, n int) *Buf {
	t.Helper()
	b, err := i.ByData(m, m.base+Addr(off), n)
	must(t, err)
	return b
}

// takeList takes n bufs of 8 bytes each, and chains them.
func takeList(t testing.TB, i *Inventory, m *Map, n int) []*Buf {
	t.Helper()
	list := make([]*Buf, n)
	for k := range list {
		list[k] = take(t, i, m, 8*k, 8)
		if k > 0 {
			must(t, list[0].Chain(list[k]))
		}
	}
	return list
}

// openDevice opens DPU function f until the end of the test.
func openDevice(t testing.TB, f int) *device.Device {
	t.Helper()
	infos, err := device.Config{Virtual: device.MaxVirtual}.List()
	must(t, err)
	d, err := device.Open(infos[len(infos)-1-f])
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// A codeTest is one call and the code it must give; Success for none.
type codeTest struct {
	name string
	err  error
	want core.Status
}

func checkCodes(t *testing.T, tests []codeTest) {
	t.Helper()
	for _, tt := range tests {
		if got := core.StatusOf(tt.err); got != tt.want {
			t.Errorf("%s: got %v (%v), want %v", tt.name, got, tt.err, tt.want)
		}
		if tt.want != core.Success && !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: errors.Is does not find %v in %v", tt.name, tt.want, tt.err)
		}
	}
}

// second is the error of a call that also returns something.
func second[T any](_ T, err error) error { return err }
