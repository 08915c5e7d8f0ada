package work

import "strconv"

// A State is where an item is in its life.
type State uint8

// The states of an item. The zero Item is invalid.
const (
	Invalid  State = iota // not initialised, or closed for good
	Idle                  // nothing to do; a wake queues it
	Busy                  // queued, or running
	Armed                 // running, and woken since that run began
	Draining              // running for the last time before Drained or Invalid
	Drained               // disabled; wakes are ignored until Enable
)

var stateNames = [...]string{
	Invalid:  "invalid",
	Idle:     "idle",
	Busy:     "busy",
	Armed:    "armed",
	Draining: "draining",
	Drained:  "drained",
}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// A word is an item's state, three flags and the number of times it was
// scheduled, in one 64-bit value, so that they can never disagree:
//
//	63                                  6     5        4        3      2    0
//	+-----------------------------------+---------+---------+--------+------+
//	|             scheduled             | awaited | running | queued | state|
//	+-----------------------------------+---------+---------+--------+------+
//
// Queued means that the executor holds the item and will call Exec or Drop.
// It outlives Disable and Close: an item cannot be taken out of the middle of
// a queue, so it stays there, does nothing when its turn comes, and is not
// queued a second time when it is woken in between.
type word uint64

const (
	stateMask word = 1<<3 - 1
	queued    word = 1 << 3 // an executor holds the item
	running   word = 1 << 4 // between the start and the end of a run
	awaited   word = 1 << 5 // someone waits for the end of the run

	schedule word = 1 << 6 // one in the count of schedules
)

func (w word) state() State       { return State(w & stateMask) }
func (w word) with(s State) word  { return w&^stateMask | word(s) }
func (w word) has(flag word) bool { return w&flag != 0 }
func (w word) scheduled() uint64  { return uint64(w / schedule) }

// done returns how many schedules have come to their end: all, or all but the
// one that is under way.
func (w word) done() uint64 {
	switch w.state() {
	case Busy, Armed, Draining:
		return w.scheduled() - 1
	default:
		return w.scheduled()
	}
}
