// Package securechannel is the application secure_channel: two processes, one on
// the host and one on the DPU, send messages to each other as fast as they can,
// and tell how long it took.
//
//	host                                            DPU
//	client    ── START: number, size ─────────────▶ server
//	          ◀───────────── START: number, size ──
//	producer  ── messages ════════════════════════▶ consumer
//	consumer  ◀════════════════════════ messages ── producer
//	          ◀──────────────────────────── END ───
//
// Each side has three goroutines with an engine of their own: one for the
// producer, one for the consumer, and that of the caller for the control path,
// over which the two others come to know of each other. They share nothing but
// the connection, which is made for that.
package securechannel
