// Package qp is the reliable connection, the unreliable connection and the
// unreliable datagram as pure state machines: packets, work requests and the
// time go in; packets, completions and one deadline come out. It has no clock,
// no lock, no goroutine and no I/O, so a whole connection can be simulated from
// a seed in virtual time.
//
// A queue pair has two machines, and each belongs to one work item:
//
//   - A [Sender] is requester and completer in one, because both own the send
//     queue. It turns work requests into request packets and the peer's
//     responses into completions.
//   - A [Responder] executes the peer's requests in the order of their packet
//     sequence numbers, answers them, and completes receives.
//
// What they need from the device around them is an [Env]: frames, memory,
// completion queues. Each machine is called by one goroutine at a time; only
// [SendQueue.Reserve], [SendQueue.Publish] and [Sender.FrameBack] come from
// elsewhere, and say so.
//
// A run of either machine looks like this:
//
//	for each frame that arrived { m.Receive(f, now) }
//	more := m.Step(now, budget)
//	arm the timer for m.Deadline(); run again if more
//
// The transport service of the configuration says which rules a machine
// follows. Without answers (transmit.go, uc.go, ud.go) a Sender gets no frames,
// has no deadline, and completes a request when its frames are back; a Responder
// is done with each frame at once, and tells the peer nothing.
//
// Where whoever runs a Sender runs the Responder that its requests go to as well,
// and nobody can see what is between the two, messages of the common shape need no
// packets: express.go.
//
// Packet sequence numbers wrap at 2^24. The Sender counts them without wrapping
// and folds them where a header is written; the Responder compares them through
// [roce.PSN.Sub].
package qp
