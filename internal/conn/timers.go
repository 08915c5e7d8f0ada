package conn

import "container/heap"

// timers are the connections with a deadline, the earliest first.
type timers struct{ all deadlines }

// set gives c a deadline; 0 takes it away.
func (t *timers) set(c *Conn, at Instant) {
	listed := c.deadline != 0
	c.deadline = at
	switch {
	case listed && at != 0:
		heap.Fix(&t.all, c.place)
	case listed:
		heap.Remove(&t.all, c.place)
	case at != 0:
		heap.Push(&t.all, c)
	}
}

// first returns the earliest deadline, or 0.
func (t *timers) first() Instant {
	if len(t.all) == 0 {
		return 0
	}
	return t.all[0].deadline
}

// due returns the connection with the earliest deadline if it has come, or nil.
func (t *timers) due(now Instant) *Conn {
	if len(t.all) == 0 || t.all[0].deadline > now {
		return nil
	}
	return t.all[0]
}

// deadlines is the heap. Equal deadlines go by identifier, so that a simulation
// does not depend on the order in which they were set.
type deadlines []*Conn

func (d deadlines) Len() int { return len(d) }
func (d deadlines) Less(i, j int) bool {
	if d[i].deadline != d[j].deadline {
		return d[i].deadline < d[j].deadline
	}
	return d[i].localID < d[j].localID
}
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}
func (d *deadlines) Push(x any) {
	c := x.(*Conn)
	c.place = len(*d)
	*d = append(*d, c)
}
func (d *deadlines) Pop() any {
	old := *d
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return c
}
