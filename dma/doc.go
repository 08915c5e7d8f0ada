// Package dma copies memory with tasks: the memcpy context of NVIDIA DOCA, in
// software.
//
// A [Context] is made on a device, connected to a progress engine, given the
// callbacks and the number of its tasks, and started. A [Memcpy] task copies
// the data of its source list to the room behind the data of its destination
// list, and on success adds what it wrote to the destination's data. Until its
// callback, both lists belong to the context and refuse changes.
//
// # Where the copying happens
//
// An executor of package work decides: see [Context.SetExecutor]. Without one
// tasks are copied inside Progress, at most 256 KiB a call, as on an inline
// executor. A tasklet copies on a goroutine; a work queue on
// several, and splits large copies over them. A copy is read and written by
// nobody else in the meantime, so the result is the same.
//
// # Failure
//
// A task that is wrong fails when its turn comes, with core.ErrIOFailed, as it
// does in hardware: [core.Task.TrySubmit] says beforehand what is wrong. The
// first failure stops the context; what is behind it is flushed. When all
// tasks are freed the context is idle, and can be started again as it is.
package dma
