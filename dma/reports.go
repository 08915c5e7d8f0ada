package dma

// reports brings finished tasks into the order of their submits. It belongs to
// the engine's goroutine.
type reports struct {
	ordered   bool
	submitted uint32    // tasks so far
	reported  uint32    // of these
	early     []*Memcpy // finished before their turn; by seq, a power of two
}

func (r *reports) init(tasks int) {
	n := 1
	for n < tasks {
		n *= 2
	}
	r.early = make([]*Memcpy, n)
}

// settle forgets what was submitted while nobody asked for an order. Nothing is
// in flight.
func (r *reports) settle() { r.reported = r.submitted }

// submit returns the number of a task that is being submitted.
func (r *reports) submit() uint32 {
	r.submitted++
	return r.submitted - 1
}

// place returns where the task number seq waits for its turn. There are at
// most as many as tasks, so no two share a place.
func (r *reports) place(seq uint32) **Memcpy { return &r.early[seq&uint32(len(r.early)-1)] }

// ready reports whether a task has come early whose turn it is now.
func (r *reports) ready() bool { return r.ordered && *r.place(r.reported) != nil }

// next returns the task whose turn it is, or nil while it is not finished.
func (r *reports) next(q queue[*Memcpy]) *Memcpy {
	p := r.place(r.reported)
	for *p == nil {
		t, ok := q.Pop()
		if !ok {
			return nil
		}
		*r.place(t.seq) = t
	}
	t := *p
	*p = nil
	r.reported++
	return t
}
