package nic

import (
	"sync"

	"github.com/gantry-rdma/gantry/work"
)

// shared is the work queue of all devices that did not ask for an executor. It
// exists while one of them does.
var shared struct {
	sync.Mutex
	queue *work.Workqueue
	users int
}

func sharedQueue() *work.Workqueue {
	shared.Lock()
	defer shared.Unlock()
	if shared.users++; shared.users == 1 {
		shared.queue = work.NewWorkqueue(0)
	}
	return shared.queue
}

func releaseQueue() {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users == 0 {
		shared.queue.Close()
		shared.queue = nil
	}
}
