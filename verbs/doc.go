// Package verbs is RDMA as verbs programs know it: devices, protection
// domains, memory regions, completion queues and queue pairs, over RoCEv2
// packets that this process makes itself. It needs no hardware, no kernel
// module and no privileges.
//
// Names and meanings are those of libibverbs, in Go's spelling: ibv_post_send
// is [QP.PostSend], IBV_WC_RETRY_EXC_ERR is [WCRetryExc]. A program
//
//  1. opens a [Device] with [Open], or two that are joined with [OpenPair],
//  2. allocates a [PD], registers memory in it ([PD.RegMR]), and makes a [CQ],
//  3. makes a [QP] and takes it through INIT, RTR and RTS with [QP.Modify],
//     with what the peer says of its own,
//  4. posts work requests, and polls completions.
//
// A UC queue pair is connected in the same way, and loses what the network
// loses: whole messages. A UD queue pair is connected to nobody: each work
// request names an [AH], and each receive begins with a [roce.GRH], 40 bytes that
// say where the datagram came from.
//
// # Who does the work
//
// A device runs on an executor of package work, and a queue pair may have one
// of its own. On an inline executor nothing moves unless somebody calls
// [CQ.Poll], [CompChannel.Get] or [Device.Drive]: lowest latency, no goroutine.
// On the others goroutines do the work. The default is a work queue that all
// devices of the process share; it exists while a device does.
//
// # Concurrency and ownership
//
// Everything here may be called by any goroutine at any time. What was
// posted belongs to the device until it completes: the work request itself may
// be reused at once, the memory that it names may not. PostSend, PostRecv,
// Poll and Arm allocate nothing.
//
// # Errors
//
// Posting returns an [Errno], as libibverbs does. Other calls return errors
// that wrap one and say which argument and which limit.
package verbs
