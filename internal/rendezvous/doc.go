// Package rendezvous is what the programs that play with another program have
// in common: how they reach it, and how they say what became of it.
package rendezvous
