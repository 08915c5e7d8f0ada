package mem_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

// Two places of one map become the source of one task: the first five bytes
// and the last six.
func Example() {
	m, err := mem.NewMap()
	if err != nil {
		log.Fatal(err)
	}
	if err := m.SetRange([]byte("hello, brave new world")); err != nil {
		log.Fatal(err)
	}
	inv, err := mem.NewInventory(2)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(m.Start(), inv.Start()); err != nil {
		log.Fatal(err)
	}

	at := mem.AddrOf(m.Bytes())
	src, _ := inv.ByData(m, at, 5)
	rest, _ := inv.ByData(m, at+16, 6)
	if err := src.Chain(rest); err != nil {
		log.Fatal(err)
	}
	for b := src; b != nil; b = b.Next() {
		fmt.Printf("%s", b.Data())
	}
	fmt.Println()

	if _, err := src.Unref(); err != nil { // gives both back
		log.Fatal(err)
	}
	fmt.Println(inv.Free(), "free")
	if err := errors.Join(inv.Destroy(), m.Destroy()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// hello world
	// 2 free
}

// While a task is in flight, its context has the buf: it can be dropped, and
// cannot be changed.
func ExampleBuf_Lend() {
	m, _ := mem.NewMap()
	_ = m.Allocate(4096, mem.AllocOptions{})
	_ = m.Start()
	inv, _ := mem.NewInventory(1)
	_ = inv.Start()
	b, _ := inv.ByAddr(m, mem.AddrOf(m.Bytes()), 4096)

	_ = b.Lend() // at submit
	fmt.Println(b.SetDataLen(1))
	_, _ = b.Unref()
	fmt.Println(inv.Free(), "free,", errors.Is(m.Stop(), core.ErrNotPermitted))
	b.Return() // at completion
	fmt.Println(inv.Free(), "free,", m.Stop())
	// Output:
	// resource already in use
	// 0 free, true
	// 1 free, <nil>
}

// A pool cuts a map into equal pieces.
func ExamplePool() {
	m, _ := mem.NewMap()
	_ = m.Allocate(4096, mem.AllocOptions{})
	_ = m.Start()
	defer m.Destroy()
	p, _ := mem.NewPool(4, 1000, m)
	_ = p.SetAlignment(64)
	if err := p.Start(); err != nil {
		log.Fatal(err)
	}
	a, _ := p.Alloc()
	b, _ := p.Alloc()
	fmt.Println(a.Len(), b.HeadAddr()-a.HeadAddr(), p.Free())
	_, _ = a.Unref()
	_, _ = b.Unref()
	// Output: 1000 1024 2
}
