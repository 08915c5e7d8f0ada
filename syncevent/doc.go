// Package syncevent is a 64-bit value that some change and others wait for, in
// this process and in others on the machine: the sync event of NVIDIA DOCA, in
// software.
//
//	 process A, the owner                      process B
//	┌──────────────────────────┐              ┌──────────────────────────┐
//	│ New, AddPublisher, Start │              │                          │
//	│ ExportPCI ───────────────┼─── blob ────▶│ Import, Start            │
//	│                          │              │                          │
//	│ Set  Add ──┐             │              │             ┌── Get      │
//	│ NotifySet ─┤  ┌──────────┴──────────────┴──────────┐  ├── Wait     │
//	│ NotifyAdd ─┴─▶│ 64 bits in memory that both share  │◀─┴── wait     │
//	│               └──────────┬──────────────┬──────────┘      tasks    │
//	└──────────────────────────┘              └──────────────────────────┘
//
// An [Event] has at least one publisher and one subscriber: [CPU] is this
// process, with one of its devices, and [RemotePCI] another one. That decides
// what an export grants: without a remote publisher the other side cannot write
// the value, whatever it tries. It restricts nothing in this process.
//
// # Calls and tasks
//
// [Event.Get], [Event.Set], [Event.Add] and the waits [Event.Wait] and
// [Event.WaitYield] work in an event that was started, from any goroutine.
// Tasks need an event that is a context ([Event.AsContext]): [Get],
// [NotifySet], [NotifyAdd] and [Wait], one kind of the last for each
// [Comparison]. They are done in the order of their submits, and waits when
// their time comes. A stop fails with core.ErrFlushed what was not done.
//
// # Order
//
// A value is published after everything that the publisher wrote before:
// whoever sees the value, sees that too. So publish what a task has written
// from its completion callback, or later. Tasks of two contexts have no order
// between them: a NotifySet that is submitted behind a copy may publish before
// the copy was done.
//
// # How a waiting engine wakes
//
// An engine that blocks on its descriptor while tasks wait is told of the
// changes that are made through the same Event, by whatever goroutine. If others
// can change the value too, because it was exported, imported, or lies in memory
// of the caller, nobody tells it of theirs: it wakes by itself and looks, after
// 20 microseconds first, then after twice as long each time, and every
// millisecond in the end. A change begins that again. So an answer that comes
// at once is seen at once, one that takes long is seen up to a millisecond late,
// and a long wait costs a few percent of a CPU.
//
// # When the owner is gone
//
// An imported event ends with its owner, be it that this one stopped the event,
// or died, or stopped the map of the buf that it is in: calls return
// core.ErrConnectionReset, waits too, and a context fails
// its tasks with that code and stops. A wait that was under way still succeeds
// if the owner published last what it waits for.
//
// A wait for a peer that lives and never publishes lasts until its
// context.Context is done, or its event is stopped. The owner is not told when
// an importer dies.
package syncevent
