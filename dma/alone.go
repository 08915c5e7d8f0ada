package dma

// alone stands for the executor of a context that was given none. The one lane
// runs inside Poll and nowhere else, so a wake is a plain bool: a work item
// would pay for other goroutines that are not there.
type alone struct {
	lane *lane
	due  bool
}

// Ready reports whether Drive would do something.
func (a *alone) Ready() bool { return a.due }

// Drive runs the lane if it is due, and reports whether it was.
func (a *alone) Drive(budget int) bool {
	if !a.due {
		return false
	}
	a.due = a.lane.run(budget)
	return true
}
