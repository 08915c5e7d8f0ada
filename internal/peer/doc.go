// Package peer gives scripts of package script something to play with: a wire
// of UDP sockets on port 4791, a capture of what passes it, and a target, a
// verbs device in this process with one queue pair.
//
// [Play] is all of it for one script.
package peer
