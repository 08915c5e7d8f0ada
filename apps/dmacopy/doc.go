// Package dmacopy moves a file between two processes, one on each side of a
// card: the application dma_copy of NVIDIA DOCA, for files of any size.
//
// The process on the host is the client of a message channel, the one on the
// DPU its server. The side that has the file is the source. Whichever it is,
// the host lends a window of its memory and the DPU runs the DMA:
//
//	host                                             DPU
//	───────────────────────────────────────────────────────────────────────
//	             DIRECTION: have I the file? ──▶
//	                         ◀── DIRECTION: have I?
//	window of n chunks ── EXPORT: its key ──▶        imports the window
//
//	source: reads chunk k into slot k mod n
//	                          ── READY k ──▶         DMA out of the slot
//	reads chunk k+n          ◀── DONE k ──           writes chunk k
//
//	sink:                                            reads chunk k, DMA into
//	writes chunk k           ◀── DONE k ──           slot k mod n
//	                          ── READY k ──▶         goes on with chunk k+n
//
//	                STATUS: source has sent all, checksum
//	                STATUS: sink has the file
//
// READY gives a slot to the DPU and DONE gives it back, so each slot has one
// owner, both processes work at the same time, and the memory that is needed
// does not depend on the file. The original maps the whole file instead.
//
// # The new file
//
// The sink writes beside the name that was asked for, and renames when the
// source has said that it is done, and the checksums of what was read and of
// what was written are equal. So there is a whole file or none, whatever
// happens to either side. STATUS also carries why a side gave up, for the other
// one to show.
package dmacopy
