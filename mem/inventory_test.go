package mem

import (
	"math"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

func TestInventoryStateCodes(t *testing.T) {
	var none *Inventory
	fresh, err := NewInventory(2)
	must(t, err)
	m := startedMap(t, 64)
	checkCodes(t, []codeTest{
		{"of no bufs", second(NewInventory(0)), core.ErrInvalidValue},
		{"of fewer", second(NewInventory(-1)), core.ErrInvalidValue},
		{"of too many", second(NewInventory(MaxElements + 1)), core.ErrNoMemory},
		{"start nil", none.Start(), core.ErrInvalidValue},
		{"stop nil", none.Stop(), core.ErrInvalidValue},
		{"destroy nil", none.Destroy(), core.ErrInvalidValue},
		{"expand nil", none.Expand(1), core.ErrInvalidValue},
		{"user data of nil", none.SetUserData(0, nil), core.ErrInvalidValue},
		{"stop before start", fresh.Stop(), core.Success},
		{"expand before start", fresh.Expand(1), core.ErrBadState},
		{"user data before start", fresh.SetUserData(1, nil), core.ErrBadState},
		{"take before start", second(fresh.ByAddr(m, m.base, 1)), core.ErrBadState},
		{"start", fresh.Start(), core.Success},
		{"start twice", fresh.Start(), core.ErrBadState},
		{"user data", fresh.SetUserData(7, "seven"), core.Success},
		{"expand by none", fresh.Expand(0), core.ErrInvalidValue},
		{"expand by less", fresh.Expand(-1), core.ErrInvalidValue},
		{"expand by too many", fresh.Expand(MaxElements - 1), core.ErrInvalidValue},
		{"expand by far too many", fresh.Expand(math.MaxInt), core.ErrInvalidValue},
		{"expand", fresh.Expand(3), core.Success},
	})
	if word, v := fresh.UserData(); word != 7 || v != "seven" || fresh.Len() != 5 || fresh.Free() != 5 {
		t.Errorf("user data %d %v, %d of %d free, want 5 of 5", word, v, fresh.Free(), fresh.Len())
	}
	b := take(t, fresh, m, 0, 64)
	checkCodes(t, []codeTest{
		{"destroy with a buf out", fresh.Destroy(), core.ErrInUse},
		{"stop with a buf out", fresh.Stop(), core.Success},
		{"take after stop", second(fresh.ByData(m, m.base, 1)), core.ErrBadState},
		{"duplicate after stop", second(fresh.Dup(b)), core.ErrBadState},
		{"reuse after stop", fresh.ReuseByAddr(b, m.base, 1), core.ErrBadState},
		{"give back after stop", second(b.Unref()), core.Success},
		{"destroy", fresh.Destroy(), core.Success},
		{"destroy twice", fresh.Destroy(), core.ErrBadState},
		{"stop destroyed", fresh.Stop(), core.ErrBadState},
		{"start destroyed", fresh.Start(), core.ErrBadState},
		{"take from destroyed", second(fresh.ByData(m, m.base, 1)), core.ErrBadState},
	})
	must(t, startedInventory(t, 1).Destroy())
}

func TestTakeCodes(t *testing.T) {
	var none *Inventory
	m, inv := startedMap(t, 64), startedInventory(t, 1)
	stopped := newMap(t, 64)
	at := m.base
	end := at + 64
	checkCodes(t, []codeTest{
		{"from nil", second(none.ByAddr(m, at, 1)), core.ErrInvalidValue},
		{"nil map", second(inv.ByAddr(nil, at, 1)), core.ErrInvalidValue},
		{"stopped map", second(inv.ByAddr(stopped, stopped.base, 1)), core.ErrBadState},
		{"map without memory", second(inv.ByAddr(emptyMap(t), at, 1)), core.ErrBadState},
		{"before the map", second(inv.ByAddr(m, at-1, 1)), core.ErrInvalidValue},
		{"over the end", second(inv.ByAddr(m, at, 65)), core.ErrInvalidValue},
		{"behind the end", second(inv.ByAddr(m, end+1, 0)), core.ErrInvalidValue},
		{"negative length", second(inv.ByAddr(m, at, -1)), core.ErrInvalidValue},
		{"length that wraps", second(inv.ByData(m, at+1, math.MaxInt)), core.ErrInvalidValue},
		{"address that wraps", second(inv.ByData(m, math.MaxUint64, 2)), core.ErrInvalidValue},
		{"data before the window", second(inv.ByArgs(m, at+8, 8, at+7, 1)), core.ErrInvalidValue},
		{"data over the end", second(inv.ByArgs(m, at+8, 8, at+8, 9)), core.ErrInvalidValue},
		{"negative data", second(inv.ByArgs(m, at+8, 8, at+8, -1)), core.ErrInvalidValue},
	})
	if inv.Free() != 1 || m.Bufs() != 0 {
		t.Fatalf("refused calls took something: %d free, %d alive", inv.Free(), m.Bufs())
	}
	checkCodes(t, []codeTest{
		{"everything", second(inv.ByData(m, at, 64)), core.Success},
		{"from an empty inventory", second(inv.ByData(m, at, 64)), core.ErrNoMemory},
	})
}

func TestTakeSetsTheFields(t *testing.T) {
	m, inv := startedMap(t, 64), startedInventory(t, 4)
	at := m.base
	for _, tt := range []struct {
		name string
		take func() (*Buf, error)
		n    int
		want fields
	}{
		{"by address", func() (*Buf, error) { return inv.ByAddr(m, at+8, 16) }, 16, fields{0, 0, 16}},
		{"by data", func() (*Buf, error) { return inv.ByData(m, at+8, 16) }, 16, fields{0, 16, 0}},
		{"by args", func() (*Buf, error) { return inv.ByArgs(m, at+8, 16, at+10, 4) }, 16, fields{2, 4, 10}},
		{"nothing at the end", func() (*Buf, error) { return inv.ByData(m, at+64, 0) }, 0, fields{0, 0, 0}},
	} {
		b, err := tt.take()
		must(t, err)
		if fieldsOf(b) != tt.want || b.Len() != tt.n {
			t.Errorf("%s: %v of %d, want %v of %d", tt.name, fieldsOf(b), b.Len(), tt.want, tt.n)
		}
	}
}

func TestDupCopiesTheWholeList(t *testing.T) {
	m, inv := startedMap(t, 100), startedInventory(t, 6)
	list := takeList(t, inv, m, 3)
	must(t, list[1].SetDataAt(2, 3))
	must(t, list[0].Lend())
	d, err := inv.Dup(list[0])
	must(t, err)
	list[0].Return()
	copies := walk(d)
	checkList(t, "duplicate", copies...)
	checkList(t, "original", list...)
	if len(copies) != 3 || m.Bufs() != 6 || d.Refs() != 1 || d.Lent() {
		t.Fatalf("%d elements, %d alive, %d references, lent %v", len(copies), m.Bufs(), d.Refs(), d.Lent())
	}
	for i, c := range copies {
		if c == list[i] || fieldsOf(c) != fieldsOf(list[i]) || c.HeadAddr() != list[i].HeadAddr() || c.Map() != m {
			t.Errorf("element %d: %v at +%d", i, fieldsOf(c), c.HeadAddr()-m.base)
		}
	}
	must(t, d.ResetDataLen())
	if list[0].DataLen() != 8 {
		t.Error("the duplicate shares its descriptor")
	}
}

func TestDupCodes(t *testing.T) {
	var none *Inventory
	m, inv := newMap(t, 100), startedInventory(t, 5)
	must(t, m.EnableThreadSafety())
	must(t, m.Start())
	list := takeList(t, inv, m, 3)
	checkCodes(t, []codeTest{
		{"from nil", second(none.Dup(list[0])), core.ErrInvalidValue},
		{"of nil", second(inv.Dup(nil)), core.ErrInvalidValue},
		{"of an element", second(inv.Dup(list[1])), core.ErrNotPermitted},
		{"with too few free", second(inv.Dup(list[0])), core.ErrNoMemory},
	})
	if inv.Free() != 2 {
		t.Errorf("%d free after a refused duplicate, want 2", inv.Free())
	}
	must(t, inv.Expand(1))
	must(t, m.Stop())
	checkCodes(t, []codeTest{
		{"of a stopped map", second(inv.Dup(list[0])), core.ErrBadState},
		{"reuse in a stopped map", inv.ReuseByAddr(list[0], m.base, 1), core.ErrBadState},
	})
	must(t, m.Start())
	checkCodes(t, []codeTest{{"of a restarted map", second(inv.Dup(list[0])), core.Success}})
}

func TestReusePointsABufElsewhere(t *testing.T) {
	var none *Inventory
	m, inv, other := startedMap(t, 64), startedInventory(t, 3), startedInventory(t, 1)
	b, list := take(t, inv, m, 0, 8), takeList(t, inv, m, 2)
	gone := take(t, other, m, 0, 8)
	_, err := gone.Unref()
	must(t, err)
	_, err = b.Ref()
	must(t, err)
	at := m.base
	checkCodes(t, []codeTest{
		{"in a nil inventory", none.ReuseByAddr(b, at, 1), core.ErrInvalidValue},
		{"nil", inv.ReuseByAddr(nil, at, 1), core.ErrInvalidValue},
		{"in another inventory", other.ReuseByAddr(b, at, 1), core.ErrInvalidValue},
		{"a returned buf", other.ReuseByAddr(gone, at, 1), core.ErrBadState},
		{"outside the map", inv.ReuseByAddr(b, at+64, 1), core.ErrInvalidValue},
		{"data outside the window", inv.ReuseByArgs(b, at+8, 8, at, 1), core.ErrInvalidValue},
	})
	if fieldsOf(b) != (fields{0, 8, 0}) || b.HeadAddr() != at {
		t.Errorf("refused calls changed the buf to %v at +%d", fieldsOf(b), b.HeadAddr()-at)
	}
	must(t, inv.ReuseByArgs(b, at+16, 16, at+18, 4))
	if fieldsOf(b) != (fields{2, 4, 10}) || b.Data()[0] != 18 || b.Refs() != 2 || inv.Free() != 0 || m.Bufs() != 3 {
		t.Errorf("by args: %v, data %v, %d references, %d free", fieldsOf(b), b.Data(), b.Refs(), inv.Free())
	}
	must(t, inv.ReuseByAddr(b, at+32, 16))
	if fieldsOf(b) != (fields{0, 0, 16}) {
		t.Errorf("by address: %v", fieldsOf(b))
	}
	must(t, inv.ReuseByData(list[1], at+32, 16))
	if fieldsOf(list[1]) != (fields{0, 16, 0}) {
		t.Errorf("by data: %v", fieldsOf(list[1]))
	}
	checkList(t, "after reuse", list...)
}
