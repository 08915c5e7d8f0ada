package work

// A Tasklet runs its items on one goroutine, one after the other, in the order
// of their wakes. A run has no budget: it goes on until it says that nothing
// remains. So nothing is ever reordered, and one busy item delays the others.
type Tasklet struct{ pool pool }

// NewTasklet returns a tasklet and starts its goroutine. Close stops it.
func NewTasklet() *Tasklet {
	x := new(Tasklet)
	x.pool.start(1, 0, Unlimited, spinLooks)
	return x
}

// Queue is called by items: see [Executor].
func (x *Tasklet) Queue(i *Item) { x.pool.queue(i) }

// Close runs what is queued once, stops the goroutine and waits for it: see
// [Executor].
func (x *Tasklet) Close() { x.pool.close() }

// String returns "tasklet".
func (x *Tasklet) String() string { return "tasklet" }
