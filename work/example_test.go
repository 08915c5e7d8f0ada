package work_test

import (
	"fmt"

	"github.com/gantry-rdma/gantry/work"
)

// An item counts down its own queue. With an inline executor everything
// happens on the goroutine that drives.
func ExampleItem() {
	x := work.NewInline()
	defer x.Close()

	todo := 5
	var item work.Item
	item.Init(x, func(budget int) (more bool) {
		n := min(todo, budget)
		todo -= n
		fmt.Println("did", n)
		return todo > 0
	})

	item.Wake()
	item.Wake() // costs nothing more: it is queued
	for x.Drive(2) {
	}
	fmt.Println(item.State(), item.Scheduled(), item.Done())
	// Output:
	// did 2
	// did 2
	// did 1
	// idle 1 1
}

// The same item runs on worker goroutines when it is given a work queue.
func ExampleWorkqueue() {
	x := work.NewWorkqueue(2)
	sum := make(chan int, 1)

	var item work.Item
	item.Init(x, func(int) bool {
		sum <- 40 + 2
		return false
	})
	item.Wake()
	fmt.Println(<-sum)

	item.Close() // returns when the run has ended
	x.Close()    // returns when the workers have ended
	fmt.Println(item.State(), x)
	// Output:
	// 42
	// invalid workqueue(2)
}

// A newest is an executor of a program's own: not fair, the newest item runs
// first.
type newest struct{ items []*work.Item }

func (n *newest) Queue(i *work.Item) { n.items = append(n.items, i) }
func (n *newest) String() string     { return "newest" }
func (n *newest) Close()             { n.run() }

func (n *newest) run() {
	for len(n.items) > 0 {
		i := n.items[len(n.items)-1]
		n.items = n.items[:len(n.items)-1]
		if i.Exec(work.Budget) {
			n.Queue(i)
		}
	}
}

func ExampleExecutor() {
	x := &newest{items: make([]*work.Item, 0, 8)}
	var a, b work.Item
	a.Init(x, func(int) bool { fmt.Println("a"); return false })
	b.Init(x, func(int) bool { fmt.Println("b"); return false })
	a.Wake()
	b.Wake()
	x.run()
	// Output:
	// b
	// a
}
