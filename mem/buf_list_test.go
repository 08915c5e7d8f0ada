package mem

import (
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

// walk returns the elements from b on.
func walk(b *Buf) (list []*Buf) {
	for ; b != nil; b = b.Next() {
		list = append(list, b)
	}
	return list
}

// checkList checks everything that the elements of a list say about it.
func checkList(t *testing.T, name string, want ...*Buf) {
	t.Helper()
	if got := walk(want[0]); !slices.Equal(got, want) {
		t.Errorf("%s: elements %p, want %p", name, got, want)
	}
	if n, err := want[0].ListLen(); n != len(want) || err != nil {
		t.Errorf("%s: length %d, %v, want %d", name, n, err, len(want))
	}
	end := want[len(want)-1]
	for i, b := range want {
		if last, err := b.Last(); last != end || err != nil {
			t.Errorf("%s: last seen from %d is %p, %v, want %p", name, i, last, err, end)
		}
		if b.IsHead() != (i == 0) || b.IsLast() != (b == end) || b.InList() != (len(want) > 1) {
			t.Errorf("%s: element %d: head %v, last %v, in list %v", name, i, b.IsHead(), b.IsLast(), b.InList())
		}
	}
}

func TestChainAndUnchain(t *testing.T) {
	m, inv := startedMap(t, 100), startedInventory(t, 6)
	var b [6]*Buf
	for i := range b {
		b[i] = take(t, inv, m, i, 1)
	}
	checkList(t, "alone", b[0])
	must(t, b[0].Chain(b[1]))
	checkList(t, "two", b[0], b[1])
	must(t, b[2].Chain(b[3]))
	must(t, b[0].Chain(b[2]))
	checkList(t, "list behind list", b[0], b[1], b[2], b[3])
	must(t, b[0].ChainTail(b[3], b[4]))
	checkList(t, "by the tail", b[0], b[1], b[2], b[3], b[4])
	must(t, b[0].Unchain(b[2]))
	checkList(t, "cut: front", b[0], b[1])
	checkList(t, "cut: back", b[2], b[3], b[4])
	must(t, b[2].Unchain(b[4]))
	checkList(t, "cut: last", b[4])
	must(t, b[2].Chain(b[0]))
	checkList(t, "back before front", b[2], b[3], b[0], b[1])
	must(t, b[2].Unchain(b[3]))
	checkList(t, "cut: first", b[2])
	checkList(t, "cut: rest", b[3], b[0], b[1])
	for _, head := range []*Buf{b[2], b[3], b[4], b[5]} {
		if old, err := head.Unref(); old != 1 || err != nil {
			t.Errorf("Unref: %d, %v, want 1", old, err)
		}
	}
	if inv.Free() != 6 {
		t.Errorf("%d free, want 6", inv.Free())
	}
}

func TestListCodes(t *testing.T) {
	var none *Buf
	m, inv := startedMap(t, 100), startedInventory(t, 10)
	list := takeList(t, inv, m, 3)
	single, shared, gone := take(t, inv, m, 0, 1), take(t, inv, m, 0, 1), take(t, inv, m, 0, 1)
	_, err := shared.Ref()
	must(t, err)
	_, err = gone.Unref()
	must(t, err)
	checkCodes(t, []codeTest{
		{"chain to nil", none.Chain(single), core.ErrInvalidValue},
		{"chain nil", single.Chain(nil), core.ErrInvalidValue},
		{"chain to itself", single.Chain(single), core.ErrInvalidValue},
		{"chain to an element", list[1].Chain(single), core.ErrNotPermitted},
		{"chain an element", single.Chain(list[1]), core.ErrNotPermitted},
		{"chain a head to its own element", list[2].Chain(list[0]), core.ErrNotPermitted},
		{"chain a shared list", single.Chain(shared), core.ErrNotPermitted},
		{"chain to a returned buf", gone.Chain(single), core.ErrBadState},
		{"chain a returned buf", single.Chain(gone), core.ErrBadState},
		{"tail that is none", list[0].ChainTail(list[1], single), core.ErrInvalidValue},
		{"tail of another", list[0].ChainTail(single, single), core.ErrInvalidValue},
		{"nil tail", list[0].ChainTail(nil, single), core.ErrInvalidValue},
		{"tail with a shared list", list[0].ChainTail(list[2], shared), core.ErrNotPermitted},
		{"unchain from nil", none.Unchain(list[1]), core.ErrInvalidValue},
		{"unchain nil", list[0].Unchain(nil), core.ErrInvalidValue},
		{"unchain the head", list[0].Unchain(list[0]), core.ErrInvalidValue},
		{"unchain from an element", list[1].Unchain(list[2]), core.ErrNotPermitted},
		{"unchain a stranger", list[0].Unchain(single), core.ErrInvalidValue},
		{"unchain from a returned buf", gone.Unchain(list[1]), core.ErrBadState},
		{"last of nil", second(none.Last()), core.ErrInvalidValue},
		{"last of a returned buf", second(gone.Last()), core.ErrBadState},
		{"length of nil", second(none.ListLen()), core.ErrInvalidValue},
		{"length of an element", second(list[1].ListLen()), core.ErrNotPermitted},
		{"length of a returned buf", second(gone.ListLen()), core.ErrBadState},
		{"chain to a shared list", shared.Chain(single), core.Success},
	})
	checkList(t, "after refused calls", list...)
	checkList(t, "shared", shared, single)
}
