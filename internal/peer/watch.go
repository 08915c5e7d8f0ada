package peer

import (
	"fmt"

	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/verbs"
)

// of returns one of the two completion queues.
func (t *Target) of(receives bool) *queue {
	if receives {
		return &t.recv
	}
	return &t.send
}

// Poll implements script.Target.
func (t *Target) Poll(receives bool) (script.Completion, bool) {
	var wc [1]verbs.WC
	q := t.of(receives)
	if q.cq == nil || q.cq.Poll(wc[:]) == 0 {
		return script.Completion{}, false
	}
	w := wc[0]
	c := script.Completion{
		ID: w.ID, Status: w.Status.String(), Op: w.Opcode.String(),
		Values: map[string]uint64{"len": uint64(w.ByteLen), "src": uint64(w.SrcQP)},
	}
	c.Values["grh"] = uint64(w.Flags & verbs.WCGRH)
	if w.Flags&verbs.WCWithImm != 0 {
		c.Values["imm"] = uint64(w.Imm)
	}
	if w.Flags&verbs.WCWithInv != 0 {
		c.Values["inv"] = uint64(w.Imm)
	}
	return c, true
}

// Counter implements script.Target.
func (t *Target) Counter(name string) (uint64, bool) {
	for _, c := range t.dev.Counters() {
		if c.Name == name {
			return c.Value, true
		}
	}
	return 0, false
}

// State implements script.Target.
func (t *Target) State() string { return t.qp.State().String() }

// Event implements script.Target.
func (t *Target) Event() (string, bool) {
	e, ok := t.dev.TryEvent()
	return e.Type.String(), ok
}

// Touch implements script.Target.
func (t *Target) Touch(name string, f func(mem []byte) error) error {
	r := t.regions[name]
	if r == nil {
		return fmt.Errorf("there is no region %s", name)
	}
	t.settle()
	defer t.settle()
	return f(r.mem)
}

// settle modifies the queue pair to what it is: that waits for the request in
// hand, and orders what it does to memory and what this goroutine does. Packets
// of a script pass through the kernel, which orders nothing for Go.
func (t *Target) settle() {
	if s := t.qp.State(); s == verbs.StateRTR || s == verbs.StateRTS {
		mask := verbs.AttrAccess
		if t.steps.typ == verbs.UD {
			mask = verbs.AttrQKey
		}
		// In another state nothing is written, so an error does not matter.
		_ = t.qp.Modify(t.attr, mask)
	}
}

// Arm implements script.Target.
func (t *Target) Arm(receives, solicited bool) { t.of(receives).cq.Arm(solicited) }

// Notified implements script.Target.
func (t *Target) Notified(receives bool) bool {
	cq, err := t.of(receives).ch.TryGet()
	if err != nil {
		return false
	}
	cq.Ack(1)
	return true
}

// Deregister implements script.Target.
func (t *Target) Deregister(name string) error {
	if w := t.windows[name]; w != nil {
		return w.mw.Dealloc()
	}
	r := t.regions[name]
	if r == nil {
		return fmt.Errorf("there is no region %s", name)
	}
	return r.mr.Dereg()
}
