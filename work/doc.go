// Package work says when and where deferred work runs. It knows no protocol.
//
// An [Item] is a function that has something to do now and then: send what a
// queue holds, copy the next piece, answer the next packet. Whoever gives it
// something to do calls [Item.Wake], and an [Executor] runs it later:
//
//   - [Inline] has no goroutine. Whoever calls Drive runs what is queued.
//     Lowest latency; without a caller nothing moves.
//   - [Tasklet] has one worker: serial, in wake order, each run to completion.
//   - [Workqueue] has several workers. A run has a budget, and goes to the end of
//     the queue when that is used up.
//
// The contract is the same for all of them:
//
//   - Wake on an idle item queues it once. Wake on a running item arms one more
//     run. Many wakes cost one queueing, and no wake is lost: a run that begins
//     after the wake sees everything the waker wrote before it.
//   - One item never runs twice at the same time. Different items may.
//   - A run that says that more remains is queued again, behind the others.
//   - Disable and Close drain: they return when the item is not running, and it
//     does not run again. A run that says more while it is drained does not
//     bring the item back.
//   - A run never waits. Inside a run, of whatever item, Disable and Close return
//     at once, and the drain is complete when the run in progress returns.
//
// The work itself belongs to its owner: a wake carries no data. Feed an item
// through a queue of your own, and do not touch what you have put there.
package work
