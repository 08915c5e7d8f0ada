package mem

import (
	"math"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

func newPool(t testing.TB, n, size int, m *Map) *Pool {
	t.Helper()
	p, err := NewPool(n, size, m)
	must(t, err)
	return p
}

func TestPoolCodes(t *testing.T) {
	var none *Pool
	m, stopped := startedMap(t, 64), newMap(t, 64)
	p := newPool(t, 2, 16, m)
	checkCodes(t, []codeTest{
		{"of no pieces", second(NewPool(0, 1, m)), core.ErrInvalidValue},
		{"of no bytes", second(NewPool(1, 0, m)), core.ErrInvalidValue},
		{"of no map", second(NewPool(1, 1, nil)), core.ErrInvalidValue},
		{"of too many pieces", second(NewPool(MaxElements+1, 1, m)), core.ErrNoMemory},
		{"align nil", none.SetAlignment(1), core.ErrInvalidValue},
		{"align to nothing", p.SetAlignment(0), core.ErrInvalidValue},
		{"align to three", p.SetAlignment(3), core.ErrInvalidValue},
		{"align to less", p.SetAlignment(math.MinInt), core.ErrInvalidValue},
		{"align", p.SetAlignment(8), core.Success},
		{"user data of nil", none.SetUserData(0, nil), core.ErrInvalidValue},
		{"user data", p.SetUserData(7, "seven"), core.Success},
		{"alloc from nil", second(none.Alloc()), core.ErrInvalidValue},
		{"alloc before start", second(p.Alloc()), core.ErrBadState},
		{"start nil", none.Start(), core.ErrInvalidValue},
		{"start over a stopped map", newPool(t, 2, 16, stopped).Start(), core.ErrBadState},
		{"start with too many bytes", newPool(t, 5, 16, m).Start(), core.ErrInvalidValue},
		{"start", p.Start(), core.Success},
		{"start twice", p.Start(), core.ErrBadState},
		{"align while started", p.SetAlignment(8), core.ErrBadState},
		{"user data while started", p.SetUserData(0, nil), core.ErrBadState},
		{"alloc", second(p.Alloc()), core.Success},
		{"stop with a buf out", p.Stop(), core.ErrInUse},
		{"destroy with a buf out", p.Destroy(), core.ErrInUse},
	})
	b, err := p.Alloc()
	must(t, err)
	checkCodes(t, []codeTest{
		{"alloc from an empty pool", second(p.Alloc()), core.ErrNoMemory},
		{"give back", second(b.Unref()), core.Success},
	})
	if word, v := p.UserData(); word != 7 || v != "seven" || p.Len() != 2 || p.Free() != 1 || p.Size() != 16 {
		t.Errorf("user data %d %v, %d of %d free, size %d", word, v, p.Free(), p.Len(), p.Size())
	}
	checkCodes(t, []codeTest{
		{"stop nil", none.Stop(), core.ErrInvalidValue},
		{"destroy nil", none.Destroy(), core.ErrInvalidValue},
	})
}

func TestPoolOutlivesStopsOfItsMap(t *testing.T) {
	m := startedMap(t, 64)
	p := newPool(t, 4, 16, m)
	must(t, p.Start())
	must(t, m.Stop())
	checkCodes(t, []codeTest{{"alloc from a stopped map", second(p.Alloc()), core.ErrBadState}})
	must(t, m.Start())
	b, err := p.Alloc()
	must(t, err)
	if _, err := b.Unref(); err != nil {
		t.Error(err)
	}
	must(t, p.Stop())
	must(t, p.Stop())
	must(t, p.Start())
	must(t, p.Destroy())
	checkCodes(t, []codeTest{
		{"start destroyed", p.Start(), core.ErrBadState},
		{"stop destroyed", p.Stop(), core.ErrBadState},
		{"destroy twice", p.Destroy(), core.ErrBadState},
	})
}

func TestPiecesAreAlignedAndDisjoint(t *testing.T) {
	for _, tt := range []struct{ n, size, align int }{{1, 1, 1}, {7, 10, 1}, {5, 10, 16}, {3, 64, 64}, {4, 1, 32}} {
		m := emptyMap(t)
		must(t, m.SetRange(make([]byte, 513)[1:]))
		must(t, m.Start())
		p := newPool(t, tt.n, tt.size, m)
		must(t, p.SetAlignment(tt.align))
		must(t, p.Start())
		owner := map[Addr]int{}
		for i := range tt.n {
			b, err := p.Alloc()
			must(t, err)
			if b.HeadAddr()%Addr(tt.align) != 0 || b.Len() != tt.size || b.DataLen() != 0 || AddrOf(b.Head()) != b.HeadAddr() {
				t.Errorf("%+v: piece %d: %#x, %d bytes, %d of data", tt, i, b.HeadAddr(), b.Len(), b.DataLen())
			}
			for k := range b.Len() {
				if other, taken := owner[b.HeadAddr()+Addr(k)]; taken {
					t.Fatalf("%+v: pieces %d and %d overlap", tt, other, i)
				}
				owner[b.HeadAddr()+Addr(k)] = i
			}
		}
	}
}

func TestPoolFitsExactly(t *testing.T) {
	for _, tt := range []struct {
		n, size, align int
		fits           bool
	}{
		{4, 16, 16, true},
		{4, 16, 1, true},
		{5, 16, 16, false},
		{2, 33, 1, false},
		{2, 31, 32, true}, // the last piece needs no padding behind it
		{2, 32, 64, false},
		{1, 65, 1, false},
		{1, math.MaxInt, 1, false},
		{MaxElements, 1, 1 << 30, false},
		{2, math.MaxInt, 1 << 30, false},
	} {
		m := emptyMap(t)
		must(t, m.Allocate(4096, AllocOptions{}))
		whole := m.Bytes()
		cut := emptyMap(t)
		must(t, cut.SetRange(whole[:64]))
		must(t, cut.Start())
		p := newPool(t, min(tt.n, 1000), max(tt.size, 1), cut)
		p.n = tt.n
		must(t, p.SetAlignment(tt.align))
		if got := p.Start() == nil; got != tt.fits {
			t.Errorf("%+v: fits %v", tt, got)
		}
		must(t, m.Destroy())
	}
}
