package work

import "fmt"

// An Executor runs items. The three of this package are chosen with their
// constructors or with [Parse]; a program may bring its own.
type Executor interface {
	// Queue takes an item that wants to run. It is called inside Wake: it
	// must not wait, allocate, or run anything. The executor owes the item
	// one call of Exec, or of Drop, and one more each time Exec returns true.
	// A [List] holds items without allocating.
	Queue(i *Item)

	// String names the kind and the size: "inline", "workqueue(2)".
	String() string

	// Close runs what is queued once, stops the executor's goroutines and
	// waits for them. Items that are woken later, or want to run again, are
	// dropped. Called from inside a run it does not wait.
	Close()
}

// Parse makes the executor that a command line names: "inline", "tasklet" or
// "workqueue". Workers is for the work queue: see [NewWorkqueue].
func Parse(name string, workers int) (Executor, error) {
	switch name {
	case "inline":
		return NewInline(), nil
	case "tasklet":
		return NewTasklet(), nil
	case "workqueue":
		return NewWorkqueue(workers), nil
	}
	return nil, fmt.Errorf("executor %q: want inline, tasklet or workqueue", name)
}

// Name returns what x calls itself, or "none" for a nil executor.
func Name(x Executor) string {
	if x == nil {
		return "none"
	}
	return x.String()
}

// Budget is how many steps a run gets where the caller does not say: as much
// as 256 KiB of copying.
const Budget = 64

func orBudget(budget int) int {
	if budget <= 0 {
		return Budget
	}
	return budget
}
