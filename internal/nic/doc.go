// Package nic drives the transport machines of package qp over a link: it
// finds the queue pair of a packet, keeps memory keys and completion queues,
// runs timers, and batches what goes out. It knows no names of any API.
//
// A packet that comes in goes:
//
//  1. The receive path takes a batch from the link: a [work.Item] where the
//     link is polled or calls when it is ready, a goroutine where the link has
//     a descriptor and nobody polls. There is one per device, so packets stay
//     in their order.
//  2. It checks each packet and looks up its queue pair. What fails a check is
//     counted under the reason and given back.
//  3. The others go to the queue of the half that they are for, requests to the
//     receive half and responses to the send half, and the half is woken.
//  4. The half runs on its executor: it hands the packets to its machine, lets
//     the machine act, gives the packets back to the link, and sends what the
//     machine emitted in one batch.
//
// Two halves of one queue pair may run at once; one half never does.
//
// Between two devices of one process with nothing around their link there are two
// shorter ways: packets cross at once (cross.go), and messages go whole, without
// packets (near.go).
package nic
