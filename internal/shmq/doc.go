// Package shmq has the queues that two processes share, over memory that both
// have mapped: a stream of messages, and a pair of rings for posted receives
// and arrivals. It makes no system call, starts nothing and waits for nothing.
//
// # Who may be on the other side
//
// Anybody. Each side keeps its own positions in memory of its own and never
// reads them back. A word of the peer is loaded once, atomically, into a local
// variable, checked against what is possible, and then used; bytes are copied
// out before anyone looks at them. What is not possible is reported as
// [ErrViolation], and from then on that end answers nothing else. So a peer can
// end the conversation, or fill it with nonsense; it cannot make this side
// read or write outside of the memory, panic, or loop.
//
// # Waiting
//
// An [Arm] is a word by which one side asks to be woken. Who wants to wait
// sets it and then looks once more at the queue; who publishes something then
// looks at the word. Both are sequentially consistent, so one of the two sees
// the other. How to wake somebody is the caller's business.
//
// Words that different processes write are 128 bytes apart: processors fetch
// lines of 64 bytes in pairs.
package shmq
