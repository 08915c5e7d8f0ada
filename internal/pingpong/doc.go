// Package pingpong is the other half of ibv_rc_pingpong, ibv_uc_pingpong and
// ibv_ud_pingpong of libibverbs: two ends send one message to and fro over a
// queue pair each, and either end may be the original program.
//
// The ends first tell each other over TCP where they are. An [Exchange] holds
// what is said there and in which order, and does no I/O. A [Server] or a
// [Client] has the TCP connection, opens a device, and plays.
//
// The originals wait for ever when a message is lost. Here each wait ends, and
// the error says in one sentence what was found and where to look.
package pingpong
