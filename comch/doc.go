// Package comch is the message channel between the two sides of a card: DOCA's
// Comch, between two processes of one machine, without privileges.
//
// A [Server] is on a DPU function and has a name; a [Client] on the host
// function that the server's representor stands for connects to it by that
// name. Each pair of the two is a [Connection], and carries two kinds of
// messages:
//
//   - the control path: messages of a few KiB, in order and without loss, that
//     [Send] tasks send and a function receives;
//   - the fast path: a [Producer] copies messages of any size straight into
//     buffers that a [Consumer] of the other side has posted.
//
// # What is behind it
//
//	 server's process                                     client's process
//	┌─────────────────────────┐                        ┌─────────────────────────┐
//	│ Server     (an engine)  │   segment: 2 streams   │ Client      (an engine) │
//	│   Send ────────────────────▶ ▒▒▒▒▒▒▒▒▒▒▒ ──────────▶ message function       │
//	│   message function ◀──────── ▒▒▒▒▒▒▒▒▒▒▒ ◀────────── Send                   │
//	│ attendant ◀──────────────── set-up socket ────────────────▶ attendant       │
//	│                         │                        │                         │
//	│ Consumer  (any engine)  │   queue, user memory   │ Producer   (any engine) │
//	│   receives ◀──────────────── ▒▒▒▒▒▒▒▒▒▒▒ ◀────────── copies                 │
//	│                         │                        │                         │
//	│ doorbell ◀────────────── rings of who waits ─────────────────▶ doorbell     │
//	└─────────────────────────┘                        └─────────────────────────┘
//
// Messages go through memory that both processes have mapped, so neither a send
// nor an idle Progress is a system call. Who is about to block says so with a
// word in that memory and looks once more; who finds the word set rings the
// doorbell, a socket pair that every engine at the connection watches. So
// engines with contexts of this package can block on their descriptor.
//
// # Who runs what
//
//   - Everything that belongs to a server or client, and all its callbacks, is
//     on the goroutine of its engine. Producers and consumers may have engines,
//     and goroutines, of their own.
//   - Each connection has one attendant: a goroutine that waits on the socket.
//     It maps the memory of the peer's consumers, and knows at once when the
//     peer dies, whatever the engines do. It calls nobody; it wakes engines.
//   - A started server has one more goroutine, which accepts connections; a
//     client that is starting is connected by the one that then is its
//     attendant.
//
// # The end of a connection
//
// A stop delivers: the context is stopping until every message that was
// submitted is in the peer's queue, and the peer, which hears of the end through
// the socket, first reads its queue to the end. A server reports the end with
// its function for it; a client stops by itself, and [Client.Err] says why. When
// the peer is killed the same happens: what it has sent is still delivered, and
// what could not be sent fails with core.ErrConnectionReset. The name of a
// server that dies is free at once.
//
// A peer that is alive but never receives can hold up a stop for as long as
// messages wait for room in its queue: [Connection.Abort] ends that.
//
// # Trust
//
// Both processes are of one user, and neither believes the other. What comes
// through shared memory is loaded once, checked and then used; messages are
// copied out before anyone sees them; imported memory is sealed, so that it
// cannot be pulled away. A peer that breaks the rules loses its connection.
//
// # Limits
//
//	name of a server              119 bytes
//	control message               65536 bytes, 4080 unless set; the smaller of the two sides counts
//	receive queue                 1 to 8192 messages, 1024 unless set; also 256 KiB, or two messages
//	send tasks of a context       8192
//	clients of a server           512
//	producers of one side         64, and as many consumers
//	fast-path tasks               8192 of each producer and consumer
//	fast-path message             1 GiB, from a list of up to 64 bufs into one buf
//	immediate data                32 bytes
//
// The capability functions, such as [MaxMessage] and [ConsumerMaxBufSize], say
// the same of a device.
package comch
