package mem

import (
	"math"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

// fields is what a buf says about itself.
type fields struct{ off, dataLen, tail int }

func fieldsOf(b *Buf) fields {
	return fields{int(b.DataAddr() - b.HeadAddr()), b.DataLen(), b.Tail()}
}

func TestBufDescribesItsWindow(t *testing.T) {
	m := startedMap(t, 100)
	b, err := startedInventory(t, 1).ByArgs(m, m.base+10, 20, m.base+13, 5)
	must(t, err)
	if b.Len() != 20 || len(b.Head()) != 20 || b.HeadAddr() != m.base+10 || b.Map() != m || b.Refs() != 1 {
		t.Errorf("len %d, head %d bytes at +%d", b.Len(), len(b.Head()), b.HeadAddr()-m.base)
	}
	if got, want := fieldsOf(b), (fields{3, 5, 12}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if d, tail := b.Data(), b.TailBytes(); d[0] != 13 || len(d) != 5 || tail[0] != 18 || len(tail) != 12 {
		t.Errorf("data %v, tail %v", d, tail)
	}
	// A slice that could grow over its end would reach the neighbour's bytes.
	for name, s := range map[string][]byte{"head": b.Head(), "data": b.Data(), "tail": b.TailBytes()} {
		if cap(s) != len(s) {
			t.Errorf("%s has capacity %d, want %d", name, cap(s), len(s))
		}
	}
}

func TestDataStaysInTheWindow(t *testing.T) {
	m := startedMap(t, 100)
	b := take(t, startedInventory(t, 1), m, 10, 20)
	must(t, b.SetDataAt(4, 6))
	at := b.HeadAddr()
	checkCodes(t, []codeTest{
		{"data before the window", b.SetData(at-1, 1), core.ErrInvalidValue},
		{"data behind the window", b.SetData(at+21, 0), core.ErrInvalidValue},
		{"data over the end", b.SetData(at+20, 1), core.ErrInvalidValue},
		{"negative data", b.SetData(at, -1), core.ErrInvalidValue},
		{"data that wraps", b.SetData(at+1, math.MaxInt), core.ErrInvalidValue},
		{"data far away", b.SetData(math.MaxUint64, 2), core.ErrInvalidValue},
		{"negative offset", b.SetDataAt(-1, 1), core.ErrInvalidValue},
		{"offset over the end", b.SetDataAt(21, 0), core.ErrInvalidValue},
		{"offset and length over the end", b.SetDataAt(20, 1), core.ErrInvalidValue},
		{"offset with a negative length", b.SetDataAt(5, -1), core.ErrInvalidValue},
		{"offset and length that wrap", b.SetDataAt(1, math.MaxInt), core.ErrInvalidValue},
		{"length over the end", b.SetDataLen(17), core.ErrInvalidValue},
		{"negative length", b.SetDataLen(-1), core.ErrInvalidValue},
		{"length that wraps", b.SetDataLen(math.MaxInt), core.ErrInvalidValue},
		{"growth over the end", b.Grow(11), core.ErrInvalidValue},
		{"negative growth", b.Grow(-1), core.ErrInvalidValue},
	})
	if got, want := fieldsOf(b), (fields{4, 6, 10}); got != want {
		t.Errorf("refused calls changed the buf to %v, want %v", got, want)
	}
	steps := []struct {
		name string
		call func() error
		want fields
	}{
		{"growth", func() error { return b.Grow(10) }, fields{4, 16, 0}},
		{"reset", func() error { return b.ResetDataLen() }, fields{4, 0, 16}},
		{"length", func() error { return b.SetDataLen(16) }, fields{4, 16, 0}},
		{"data", func() error { return b.SetData(at+19, 1) }, fields{19, 1, 0}},
		{"nothing at the end", func() error { return b.SetData(at+20, 0) }, fields{20, 0, 0}},
		{"offset", func() error { return b.SetDataAt(0, 20) }, fields{0, 20, 0}},
	}
	for _, s := range steps {
		if err := s.call(); err != nil || fieldsOf(b) != s.want {
			t.Errorf("%s: %v, %v, want %v", s.name, err, fieldsOf(b), s.want)
		}
	}
}

func TestReferenceCodes(t *testing.T) {
	var none *Buf
	m, inv := startedMap(t, 100), startedInventory(t, 4)
	list := takeList(t, inv, m, 2)
	full := take(t, inv, m, 0, 1)
	full.refs = math.MaxUint16
	gone := take(t, inv, m, 0, 1)
	if _, err := gone.Unref(); err != nil {
		t.Fatal(err)
	}
	checkCodes(t, []codeTest{
		{"reference to nil", second(none.Ref()), core.ErrInvalidValue},
		{"reference to an element", second(list[1].Ref()), core.ErrNotPermitted},
		{"reference too many", second(full.Ref()), core.ErrTooBig},
		{"reference to a returned buf", second(gone.Ref()), core.ErrBadState},
		{"drop of nil", second(none.Unref()), core.ErrInvalidValue},
		{"drop of an element", second(list[1].Unref()), core.ErrNotPermitted},
		{"drop too many", second(gone.Unref()), core.ErrBadState},
		{"set data of nil", none.SetData(0, 0), core.ErrInvalidValue},
		{"set data of a returned buf", gone.SetData(0, 0), core.ErrBadState},
		{"set offset of a returned buf", gone.SetDataAt(0, 0), core.ErrBadState},
		{"set length of a returned buf", gone.SetDataLen(0), core.ErrBadState},
		{"reset a returned buf", gone.ResetDataLen(), core.ErrBadState},
	})
	if full.Refs() != math.MaxUint16 || list[1].Refs() != 1 || gone.Refs() != 0 {
		t.Errorf("refused calls changed counts: %d, %d, %d", full.Refs(), list[1].Refs(), gone.Refs())
	}
	if gone.Map() != nil || gone.Head() != nil || len(gone.Data()) != 0 || len(gone.TailBytes()) != 0 {
		t.Error("a returned buf still has bytes")
	}
}

func TestLastReferenceReturnsTheWholeList(t *testing.T) {
	m, inv := startedMap(t, 100), startedInventory(t, 3)
	list := takeList(t, inv, m, 3)
	if old, err := list[0].Ref(); old != 1 || err != nil {
		t.Errorf("Ref: %d, %v, want 1", old, err)
	}
	if old, err := list[0].Unref(); old != 2 || err != nil || inv.Free() != 0 || m.Bufs() != 3 {
		t.Errorf("first Unref: %d, %v, %d free, %d alive, want 2, nil, 0, 3", old, err, inv.Free(), m.Bufs())
	}
	if old, err := list[0].Unref(); old != 1 || err != nil || inv.Free() != 3 || m.Bufs() != 0 {
		t.Errorf("last Unref: %d, %v, %d free, %d alive, want 1, nil, 3, 0", old, err, inv.Free(), m.Bufs())
	}
}

func TestListsReturnToTheirOwnInventories(t *testing.T) {
	m := startedMap(t, 100)
	a, b := startedInventory(t, 1), startedInventory(t, 2)
	head := take(t, a, m, 0, 1)
	must(t, head.Chain(take(t, b, m, 0, 1)))
	if _, err := head.Unref(); err != nil || a.Free() != 1 || b.Free() != 2 {
		t.Errorf("%v, %d and %d free, want 1 and 2", err, a.Free(), b.Free())
	}
}
