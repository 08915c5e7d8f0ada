package qp

// A State is what a machine does with what it gets.
type State uint8

// The states of both machines. Draining and Drained are the Sender's.
const (
	Stopped  State = iota // drops packets, touches no work request
	Running               // does all its work
	Draining              // finishes the requests that it began
	Drained               // began no new request, and has none in progress
	Failed                // flushes work requests
)

var stateNames = [...]string{"STOPPED", "RUNNING", "DRAINING", "DRAINED", "FAILED"}

// String returns the state's name.
func (s State) String() string { return stateNames[s] }

// A wqeState is where a work request of the send queue is.
type wqeState uint8

const (
	wqePosted wqeState = iota // no packet of it was sent
	wqeSent                   // at least one packet was
	wqeFailed                 // cannot be executed: completes with its status in its turn
	wqeDone                   // executed while earlier ones were not: a bind
)
