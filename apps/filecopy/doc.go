// Package filecopy copies a file through DMA tasks: an application of core,
// mem, work and dma that does something useful.
//
// A fixed window of tasks is in flight. Each has a piece of memory of its own,
// as large as a chunk, and goes round like this:
//
//	    ┌──────────────────────────────────────────────────┐
//	    ▼                                                  │
//	point the task at the next chunk ──▶ Submit ──▶ DMA copies the chunk
//	of the mapped source                            into the task's memory
//	    ▲                                                  │
//	    └── its callback writes that memory to the target ◀┘
//
// So a file of any size needs the memory of one window, and every byte goes
// through a task. With an executor that has goroutines, tasks are copied while
// a callback writes.
//
// # The target
//
// [Copy] writes a new file beside the target and renames it at the end. Until
// then a file that the target names is as it was; when something goes wrong it
// stays so, and the new file is removed. Decision 0005 says why the source is
// mapped and the target written.
package filecopy
