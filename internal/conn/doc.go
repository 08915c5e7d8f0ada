// Package conn is connection management as state machines: who sends which
// message of package mad when, and what becomes of a connection. It knows no
// clock, no lock, no goroutine and no I/O. Messages, the calls of a program and
// the time go in; messages, events and one deadline come out through an Env. So
// two sides and the network between them can be simulated from a seed.
//
// An Agent is the connection manager of one device. A connection is set up in
// three messages and ended by two:
//
//	active            passive
//	Connect  REQ  -->          event Request
//	               <--  MRA    only when a REQ comes again before the answer
//	               <--  REP    Accept; or REJ: Reject
//	event Reply
//	Confirm  RTU  -->          event Established
//	Disconnect DREQ -->        event Disconnected
//	               <--  DREP
//	event Disconnected; both sides are in time-wait, then event Expired
//
// REQ, REP and DREQ are repeated until they are answered, as often as the REQ
// says, and then given up. What arrives twice is answered twice and told once.
// One message each way resolves a service of datagrams: SIDR_REQ, SIDR_REP.
//
// A peer can make an agent answer, but not grow: connections that the program
// has not accepted are bounded, what is refused for want of a listener leaves no
// trace, and every wait has a limit.
//
// The rules are those of IBTA Vol 1, chapter 12. Where it leaves a choice, the
// choice is that of the Linux kernel, so that the two agree.
package conn
