package nic

import "github.com/gantry-rdma/gantry/internal/frame"

// Waiting is part of qp.Env: what is pending, and what came since the run began.
func (h *half) Waiting(n int) *frame.Frame {
	if h.circle != nil {
		if int(h.waiting-h.handled) <= n {
			return nil
		}
		return h.pending
	}
	if int(h.in.count.Load()-h.handled) <= n {
		return nil
	}
	if late := h.in.take(); late != nil {
		end := &h.pending
		for *end != nil {
			end = &(*end).Next
		}
		*end = late
	}
	return h.pending
}
