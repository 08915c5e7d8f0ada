package mem

import (
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

func TestLentListsDoNotChange(t *testing.T) {
	m, inv := startedMap(t, 100), startedInventory(t, 4)
	list, single := takeList(t, inv, m, 3), take(t, inv, m, 0, 8)
	must(t, list[0].Lend())
	must(t, list[0].Lend())
	list[0].Return() // of two loans one is left
	at := m.base
	for i, b := range list {
		checkCodes(t, []codeTest{
			{"set data", b.SetData(b.HeadAddr(), 1), core.ErrInUse},
			{"set offset", b.SetDataAt(0, 1), core.ErrInUse},
			{"set length", b.SetDataLen(1), core.ErrInUse},
			{"reset", b.ResetDataLen(), core.ErrInUse},
			{"chain", b.Chain(single), core.ErrInUse},
			{"chain by the tail", b.ChainTail(list[2], single), core.ErrInUse},
			{"chain behind another", single.Chain(b), core.ErrInUse},
			{"unchain", b.Unchain(list[2]), core.ErrInUse},
			{"reuse by address", inv.ReuseByAddr(b, at, 1), core.ErrInUse},
			{"reuse by data", inv.ReuseByData(b, at, 1), core.ErrInUse},
			{"reuse by args", inv.ReuseByArgs(b, at, 1, at, 1), core.ErrInUse},
		})
		if got, want := fieldsOf(b), (fields{0, 8, 0}); got != want || b.HeadAddr() != at+Addr(8*i) || !b.Lent() {
			t.Errorf("element %d: %v, lent %v, want %v", i, got, b.Lent(), want)
		}
	}
	checkList(t, "lent", list...)
	list[0].Return()
	for _, b := range list {
		must(t, b.ResetDataLen())
	}
	must(t, list[0].Unchain(list[1]))
}

func TestLentBufsGrow(t *testing.T) {
	m := startedMap(t, 100)
	b, err := startedInventory(t, 1).ByAddr(m, m.base, 10)
	must(t, err)
	must(t, b.Lend())
	must(t, b.Grow(4))
	if b.DataLen() != 4 {
		t.Errorf("data length %d, want 4", b.DataLen())
	}
}

func TestDroppedBufsGoBackWhenTheLastLoanEnds(t *testing.T) {
	for _, n := range []int{1, 3} {
		m, inv := startedMap(t, 100), startedInventory(t, 3)
		list := takeList(t, inv, m, n)
		head := list[0]
		must(t, head.Lend())
		must(t, head.Lend())
		if old, err := head.Unref(); old != 1 || err != nil {
			t.Errorf("Unref: %d, %v, want 1", old, err)
		}
		checkCodes(t, []codeTest{
			{"lend again", head.Lend(), core.ErrBadState},
			{"reference", second(head.Ref()), core.ErrBadState},
			{"drop again", second(head.Unref()), core.ErrBadState},
			{"duplicate", second(inv.Dup(head)), core.ErrBadState},
			{"stop the map", m.Stop(), core.ErrNotPermitted},
			{"destroy the map", m.Destroy(), core.ErrNotPermitted},
			{"destroy the inventory", inv.Destroy(), core.ErrInUse},
		})
		checkList(t, "dropped and lent", list...)
		if head.Data()[7] != 7 {
			t.Error("the data went away during the loan")
		}
		head.Return()
		if inv.Free() != 3-n || m.Bufs() != n {
			t.Errorf("list of %d went back with a loan out: %d free, %d alive", n, inv.Free(), m.Bufs())
		}
		head.Return()
		if inv.Free() != 3 || m.Bufs() != 0 {
			t.Errorf("list of %d did not go back: %d free, %d alive", n, inv.Free(), m.Bufs())
		}
		must(t, m.Destroy())
		must(t, inv.Destroy())
	}
}

func TestLendCodes(t *testing.T) {
	m, inv := startedMap(t, 100), startedInventory(t, 4)
	list := takeList(t, inv, m, 2)
	gone := take(t, inv, m, 0, 1)
	_, err := gone.Unref()
	must(t, err)
	checkCodes(t, []codeTest{
		{"lend an element", list[1].Lend(), core.ErrNotPermitted},
		{"lend a returned buf", gone.Lend(), core.ErrBadState},
		{"lend", list[0].Lend(), core.Success},
	})
	list[1].Return() // not the head: nothing
	gone.Return()    // not lent: nothing
	if !list[0].Lent() || !list[1].Lent() || gone.Lent() || inv.Free() != 2 {
		t.Errorf("lent %v, %v, %v, %d free", list[0].Lent(), list[1].Lent(), gone.Lent(), inv.Free())
	}
	list[0].Return()
	list[0].Return() // one too many: nothing
	must(t, list[0].Lend())
	if !list[0].Lent() {
		t.Error("a return too many ate a later loan")
	}
}

func TestAWrittenListIsLentOnce(t *testing.T) {
	for _, n := range []int{1, 3} {
		m, inv := startedMap(t, 100), startedInventory(t, 3)
		list := takeList(t, inv, m, n)
		head := list[0]
		must(t, head.Lend())
		checkCodes(t, []codeTest{{"write what is read", head.LendToWrite(), core.ErrInUse}})
		head.Return()
		checkCodes(t, []codeTest{
			{"write", head.LendToWrite(), core.Success},
			{"read what is written", head.Lend(), core.ErrInUse},
			{"write what is written", head.LendToWrite(), core.ErrInUse},
			{"change what is written", head.ResetDataLen(), core.ErrInUse},
		})
		for _, b := range list[1:] {
			checkCodes(t, []codeTest{{"write an element", b.LendToWrite(), core.ErrInUse}})
		}
		head.Return()
		if head.Lent() {
			t.Error("refused loans left the list lent")
		}
		checkCodes(t, []codeTest{
			{"read after the write", head.Lend(), core.Success},
			{"read twice after the write", head.Lend(), core.Success},
		})
		head.Return()
		head.Return()
		must(t, head.LendToWrite())
		_, err := head.Unref()
		must(t, err)
		head.Return()
		if inv.Free() != 3 {
			t.Errorf("%d free after the write of a dropped list, want 3", inv.Free())
		}
		must(t, take(t, inv, m, 0, 1).Lend()) // no trace of the write is left
	}
}
