// Package script is the language of scripted RoCE peers: one side of an
// exchange of packets, played from a text. It parses a script and plays it; it
// opens no socket and knows no device.
//
//	param psn = 0xfffffe
//	target                       # the other side, if this process is to have it
//	  rq_psn psn
//	  mr a 4096 local_write remote_write
//	end
//	send RC WRITE_ONLY psn=psn va=a.va rkey=a.rkey dma=64 len=64 fill=1 ack
//	expect RC ACK psn=psn syndrome=ACK msn=1
//	memory a off=0 len=64 fill=1
//
// [Parse] reads a script. [Script.Play] carries out its statements one after
// the other, over a [Wire] that moves UDP payloads, and, where the script has a
// target block, against a [Target] that it sets up and looks into. Time comes
// from the Wire, so that a test can make its own.
//
// The words of a packet are those that package roce prints: a line of a trace
// is, but for its syndrome, a line of a script. docs/roceprobe.md is the
// reference of the language.
package script
