// Package mem holds the memory that tasks work on: maps, bufs, and the
// inventories and pools that bufs come from.
//
// A [Map] is a range of memory together with the devices that may use it and
// the rights they have. A [Buf] describes a window of a map and the valid
// bytes inside it:
//
//	head                          head+len
//	 |  headroom |  data  |   tail room  |
//	             ^data    ^data+data length
//
// Bufs are chained into lists, so that one task can gather from several
// places and scatter to several places. They come from an [Inventory], which
// points them anywhere in a map, or from a [Pool], which has cut one map into
// equal pieces.
//
// # Ownership
//
// Maps, inventories, pools and bufs are not safe for concurrent use: each
// belongs to one goroutine at a time, as a progress engine does. A map that
// several goroutines take bufs from needs [Map.EnableThreadSafety]; its
// inventories stay apart, one per goroutine.
//
// A buf has a reference count. Whoever takes it has one reference, and gives
// it back with [Buf.Unref]; the last one returns the whole list to where it
// came from. From submit to completion a task's bufs are lent to its context
// ([Buf.Lend]): they may be dropped, and they may be lent to another task, but
// they cannot be changed, and their memory cannot go away.
//
// # Two processes
//
// A map over memory that [Map.Allocate] took as Shareable, with the right
// PCIReadOnly or PCIReadWrite, can be used by another process of the same user:
//
//	owner                                   importer
//	m.SetAccess(mem.PCIReadOnly)
//	m.Start()
//	blob, err := m.ExportPCI(dev)
//	            blob, address, length  --->
//	                                        i, err := mem.Import(0, nil, blob, dev)
//	                                        src, err := inventory.ByData(i, address, length)
//
// The bytes of [Map.ExportPCI] go from one to the other in any way that keeps
// them secret: they are a key to the memory. All addresses are the owner's. An
// importer of a PCIReadOnly export has the memory mapped for reading, so that
// not even a bug can write it. Both devices must be of one card: a DPU function
// and the host function that it represents, or the same device on both sides.
//
// The import ends when the owner stops or destroys its map or ends, in whatever
// way: tasks that use it from then on fail. The memory itself stays until the
// importer destroys its map too, so nothing crashes. Processes meet in a
// directory of the user: GANTRY_RUNTIME_DIR, else gantry in XDG_RUNTIME_DIR,
// else gantry-UID in the directory for temporary files. Containers that share
// it share memory.
//
// # Allocation
//
// All memory is taken while things are set up. Taking, changing, chaining,
// lending and returning bufs allocates nothing, and their errors are bare
// [core.Status] values. The set-up calls say in words what was wrong.
package mem
