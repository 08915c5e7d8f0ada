package mem

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"pgregory.net/rapid"
)

// A world is bufs of a counting map and of a thread-safe one, from two
// inventories, next to a model that is simple enough to be right.
type world struct {
	maps  [2]*Map
	invs  [2]*Inventory
	lists []*modelList
}

// A modelList is a list that somebody still has: by reference or by loan.
type modelList struct {
	elems []*modelBuf
	refs  int
	loans int
	write bool // the one loan is for writing
}

type modelBuf struct {
	b        *Buf
	inv, m   int
	off, len int
}

const worldBytes = 64

func newWorld(t *rapid.T) *world {
	w := &world{}
	for i := range w.maps {
		m, _ := NewMap()
		w.maps[i] = m
		if err := m.SetRange(make([]byte, worldBytes)); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := m.EnableThreadSafety(); err != nil {
				t.Fatal(err)
			}
		}
		inv, err := NewInventory(3 + i)
		if err != nil {
			t.Fatal(err)
		}
		w.invs[i] = inv
		if m.Start() != nil || inv.Start() != nil {
			t.Fatal("start failed")
		}
	}
	return w
}

// out counts the elements of inventory i, or of all maps m, that are not free.
func (w *world) out(match func(e *modelBuf) bool) (n int) {
	for _, l := range w.lists {
		for _, e := range l.elems {
			if match(e) {
				n++
			}
		}
	}
	return n
}

func (w *world) outOf(inv int) int {
	return w.out(func(e *modelBuf) bool { return e.inv == inv })
}

// pick chooses a list; the action is skipped when there is none.
func (w *world) pick(t *rapid.T, label string) *modelList {
	if len(w.lists) == 0 {
		t.Skip("no list")
	}
	return rapid.SampledFrom(w.lists).Draw(t, label)
}

// drop takes out of the model what nobody has any more.
func (w *world) drop() {
	w.lists = slices.DeleteFunc(w.lists, func(l *modelList) bool { return l.refs == 0 && l.loans == 0 })
}

// expect compares the error of a call with the code of the model.
func expect(t *rapid.T, call string, err error, want core.Status) {
	t.Helper()
	if got := core.StatusOf(err); got != want {
		t.Fatalf("%s: got %v, want %v", call, got, want)
	}
}

// firstOf is the first code that is not Success: the model's order of checks.
func firstOf(codes ...core.Status) core.Status {
	for _, c := range codes {
		if c != core.Success {
			return c
		}
	}
	return core.Success
}

func when(cond bool, code core.Status) core.Status {
	if cond {
		return code
	}
	return core.Success
}

// unchangeable is the code for changing a list.
func (l *modelList) unchangeable() core.Status {
	return firstOf(when(l.loans > 0, core.ErrInUse), when(l.refs == 0, core.ErrBadState))
}

func (w *world) take(t *rapid.T) {
	inv, m := rapid.IntRange(0, 1).Draw(t, "inv"), rapid.IntRange(0, 1).Draw(t, "map")
	off, n := rapid.IntRange(0, worldBytes).Draw(t, "off"), rapid.IntRange(0, worldBytes).Draw(t, "n")
	b, err := w.invs[inv].ByData(w.maps[m], w.maps[m].base+Addr(off), n)
	want := firstOf(when(off+n > worldBytes, core.ErrInvalidValue),
		when(w.outOf(inv) == w.invs[inv].Len(), core.ErrNoMemory))
	expect(t, "ByData", err, want)
	if want == core.Success {
		w.lists = append(w.lists, &modelList{elems: []*modelBuf{{b, inv, m, 0, n}}, refs: 1})
	}
}

func (w *world) ref(t *rapid.T) {
	l := w.pick(t, "list")
	old, err := l.elems[0].b.Ref()
	expect(t, "Ref", err, when(l.refs == 0, core.ErrBadState))
	if err == nil {
		if old != l.refs {
			t.Fatalf("Ref returned %d, want %d", old, l.refs)
		}
		l.refs++
	}
}

func (w *world) unref(t *rapid.T) {
	l := w.pick(t, "list")
	old, err := l.elems[0].b.Unref()
	expect(t, "Unref", err, when(l.refs == 0, core.ErrBadState))
	if err == nil {
		if old != l.refs {
			t.Fatalf("Unref returned %d, want %d", old, l.refs)
		}
		l.refs--
	}
	w.drop()
}

func (w *world) chain(t *rapid.T) {
	l, r := w.pick(t, "left"), w.pick(t, "right")
	want := firstOf(l.unchangeable(), r.unchangeable(),
		when(l == r, core.ErrInvalidValue), when(r.refs != 1, core.ErrNotPermitted))
	expect(t, "Chain", l.elems[0].b.Chain(r.elems[0].b), want)
	if want == core.Success {
		l.elems = append(l.elems, r.elems...)
		r.refs = 0
		w.drop()
	}
}

func (w *world) unchain(t *rapid.T) {
	l := w.pick(t, "list")
	at := rapid.IntRange(0, len(l.elems)-1).Draw(t, "at")
	want := firstOf(l.unchangeable(), when(at == 0, core.ErrInvalidValue))
	expect(t, "Unchain", l.elems[0].b.Unchain(l.elems[at].b), want)
	if want == core.Success {
		w.lists = append(w.lists, &modelList{elems: slices.Clone(l.elems[at:]), refs: 1})
		l.elems = l.elems[:at:at]
	}
}

func (w *world) lend(t *rapid.T) {
	l := w.pick(t, "list")
	err := l.elems[0].b.Lend()
	expect(t, "Lend", err, firstOf(when(l.write, core.ErrInUse), when(l.refs == 0, core.ErrBadState)))
	if err == nil {
		l.loans++
	}
}

func (w *world) lendToWrite(t *rapid.T) {
	l := w.pick(t, "list")
	err := l.elems[0].b.LendToWrite()
	expect(t, "LendToWrite", err, when(l.loans > 0, core.ErrInUse))
	if err == nil {
		l.loans, l.write = 1, true
	}
}

func (w *world) giveBack(t *rapid.T) {
	l := w.pick(t, "list")
	l.elems[0].b.Return()
	l.loans = max(l.loans-1, 0)
	l.write = l.write && l.loans > 0
	w.drop()
}

func (w *world) dup(t *rapid.T) {
	l, inv := w.pick(t, "list"), rapid.IntRange(0, 1).Draw(t, "inv")
	b, err := w.invs[inv].Dup(l.elems[0].b)
	want := firstOf(when(l.refs == 0, core.ErrBadState),
		when(w.invs[inv].Len()-w.outOf(inv) < len(l.elems), core.ErrNoMemory))
	expect(t, "Dup", err, want)
	if want != core.Success {
		return
	}
	twin := &modelList{refs: 1}
	for _, e := range l.elems {
		twin.elems = append(twin.elems, &modelBuf{b, inv, e.m, e.off, e.len})
		b = b.Next()
	}
	w.lists = append(w.lists, twin)
}

func (w *world) setData(t *rapid.T) {
	l := w.pick(t, "list")
	e := rapid.SampledFrom(l.elems).Draw(t, "element")
	off, n := rapid.IntRange(0, worldBytes).Draw(t, "off"), rapid.IntRange(0, worldBytes).Draw(t, "n")
	want := firstOf(l.unchangeable(), when(off+n > e.b.Len(), core.ErrInvalidValue))
	expect(t, "SetDataAt", e.b.SetDataAt(off, n), want)
	if want == core.Success {
		e.off, e.len = off, n
	}
}

func (w *world) stop(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "map")
	var held bool
	for _, l := range w.lists {
		for _, e := range l.elems {
			held = held || e.m == i && (i == 0 || l.loans > 0)
		}
	}
	expect(t, "Stop", w.maps[i].Stop(), when(held, core.ErrNotPermitted))
	if !held {
		expect(t, "Start", w.maps[i].Start(), core.Success)
	}
}

func (w *world) expand(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "inv")
	if w.invs[i].Len() > 8 {
		t.Skip("large enough")
	}
	expect(t, "Expand", w.invs[i].Expand(1), core.Success)
}

// check compares everything that can be asked with the model.
func (w *world) check(t *rapid.T) {
	for i, inv := range w.invs {
		if got, want := inv.Free(), inv.Len()-w.outOf(i); got != want {
			t.Fatalf("inventory %d: %d free, want %d of %d", i, got, want, inv.Len())
		}
	}
	if got, want := w.maps[0].Bufs(), w.out(func(e *modelBuf) bool { return e.m == 0 }); got != want {
		t.Fatalf("%d bufs alive, want %d", got, want)
	}
	for i, l := range w.lists {
		if err := l.differs(); err != nil {
			t.Fatalf("list %d: %v", i, err)
		}
	}
}

func (l *modelList) differs() error {
	got := walk(l.elems[0].b)
	if n, err := got[0].ListLen(); n != len(l.elems) || err != nil || len(got) != n {
		return fmt.Errorf("length %d, %v, walked %d, want %d", n, err, len(got), len(l.elems))
	}
	if got[0].Refs() != l.refs {
		return fmt.Errorf("%d references, want %d", got[0].Refs(), l.refs)
	}
	for i, e := range l.elems {
		last, err := e.b.Last()
		if got[i] != e.b || e.b.IsHead() != (i == 0) || last != got[len(got)-1] || err != nil {
			return fmt.Errorf("element %d is %p, want %p; last %p, %v", i, got[i], e.b, last, err)
		}
		if f := fieldsOf(e.b); f.off != e.off || f.dataLen != e.len || e.b.Lent() != (l.loans > 0) {
			return fmt.Errorf("element %d: %v, lent %v, want %d, %d, %d loans", i, f, e.b.Lent(), e.off, e.len, l.loans)
		}
	}
	return nil
}

func TestBufsFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"take": w.take, "take more": w.take, "chain more": w.chain, "ref": w.ref, "unref": w.unref, "chain": w.chain, "unchain": w.unchain,
			"lend": w.lend, "lend to write": w.lendToWrite, "return": w.giveBack, "dup": w.dup, "set data": w.setData,
			"stop": w.stop, "expand": w.expand, "": w.check,
		})
	})
}

func TestOffsetsFollowTheModel(t *testing.T) {
	// The model counts in numbers that cannot wrap for what is drawn here.
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Uint64Range(1<<20, 1<<62).Draw(t, "base")
		size := rapid.IntRange(0, 1<<20).Draw(t, "size")
		a := base + uint64(rapid.Int64Range(-1<<20, 1<<21).Draw(t, "distance"))
		n := rapid.Int().Draw(t, "n")
		if rapid.Bool().Draw(t, "small") {
			n = rapid.IntRange(-2, size+2).Draw(t, "few")
		}
		want := a >= base && n >= 0 && n <= size && a+uint64(n) <= base+uint64(size)
		off, ok := Addr(a).offset(n, Addr(base), size)
		if ok != want || ok && uint64(off) != a-base {
			t.Fatalf("got %d, %v, want %v", off, ok, want)
		}
	})
}
