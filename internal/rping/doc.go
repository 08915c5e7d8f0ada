// Package rping is the other half of rping of librdmacm: a client and a server,
// connected by package cm, send a text to and fro. Either end may be the
// original program.
//
// One ping, number n:
//
//	client                              server
//	advertises where the text lies  ->
//	                                <-  READs it
//	                                <-  says go on
//	advertises room for its return  ->
//	                                <-  WRITEs it there
//	                                <-  says done
//
// An [advert] is a SEND of 16 bytes. What the server says is as long, and its
// contents mean nothing. See text.go for the text.
//
// The originals wait for ever when somebody falls silent. Here each wait ends,
// and the error says in one sentence what was found and where to look.
package rping
