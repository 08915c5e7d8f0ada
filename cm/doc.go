// Package cm connects queue pairs of package verbs: it listens on an address and
// a port, connects, accepts, refuses and disconnects, as librdmacm does, and
// speaks the same protocol to peers: the messages of InfiniBand's connection
// manager, between queue pairs 1. The Linux kernel's rdma_cm understands it.
//
// A program opens a [Channel] on a device and gets its events with
// [Channel.Next]. It makes an [ID] for each thing that it wants to do:
//
//	server                              client
//	id.Listen(addr, backlog)            id.ResolveAddr(addr)
//	                                      AddrResolved: id.ResolveRoute()
//	                                      RouteResolved: id.CreateQP(…)
//	  ConnectRequest, with a new ID:      id.Connect(…)
//	    e.ID.CreateQP(…)
//	    e.ID.Accept(…)
//	  Established                         Established
//	  Disconnected                        id.Disconnect()
//	                                      Disconnected
//	id.Close()                          id.Close()
//
// The queue pair of an ID goes through its states by itself: to INIT when it is
// made, to RTR and RTS when the connection is set up, with what both sides said
// of themselves, and to ERR when it ends.
//
// # Who does the work
//
// All channels of a device share its queue pair 1, which exists while there is
// one. On an inline executor nothing moves unless somebody calls Next or
// TryNext, or polls a completion queue of the device and then calls them. On the
// others a goroutine reads queue pair 1.
//
// # Concurrency and ownership
//
// Everything here may be called by any goroutine at any time. Private data in an
// event is the program's own. Events of an ID do not come any more once its
// Close has returned.
//
// # Errors
//
// Calls return errors that wrap an [Errno] and say which argument is wrong. What
// a peer does comes as an event.
package cm
