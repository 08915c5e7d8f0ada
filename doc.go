// Package gantry is the root of Gantry: a software DPU and RDMA NIC in Go.
// There is no code here; its packages are
//
//   - core: error codes, tasks, contexts and the progress engine;
//   - device: software devices and representors;
//   - mem: memory maps, also of other processes, bufs, inventories and pools;
//   - work: work items and executors, when and where deferred work runs;
//   - dma: the context that copies memory;
//   - comch: messages between the two sides of a card, in two processes;
//   - syncevent: a value that processes change and wait for;
//   - roce: the bytes of RoCEv2;
//   - verbs: queue pairs as verbs programs know them;
//   - cm: who connects with whom.
//
// Start with the package comment of core, which says who owns what and when,
// and read the samples beside it.
package gantry
