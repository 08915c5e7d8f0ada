package nic

import (
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/roce"
)

// Flush is part of qp.Env.
//
// What a half has executed is in memory, where all CPUs see it in order: the
// answer leaves behind it. So nothing is to be done for global visibility. What
// has to outlast a loss of power is a mapped file, or it could not have been
// registered with that right; and it is written out here, on whoever runs the
// half, who waits for the disk.
func (h *half) Flush(t *qp.FlushTarget) bool {
	var b []byte
	var fault keyFault
	if t.Level == roce.FlushRegion {
		b, fault = h.d.keys.whole(h.q, t.RKey, t.Need())
	} else {
		b, fault = h.d.keys.openRemote(h.q, t.RKey, t.Addr, int(t.Len), t.Need())
	}
	if fault != keyGood {
		h.d.fault(fault)
		return false
	}
	return t.Placement&roce.PlacePersistent == 0 || len(b) == 0 || sys.Sync(b) == nil
}

// whole returns all bytes that a key opens.
func (k *keys) whole(q *QP, key uint32, need qp.Access) ([]byte, keyFault) {
	r := k.regions.at(key >> 8)
	if r != nil && r.window == nil && r.key == key {
		return k.open(q.pd, key, r.base, len(r.mem), need)
	}
	if w := k.window(key); w != nil {
		return w.whole(q, key, need)
	}
	return nil, keyUnknown
}
