// Package mad reads and writes the messages of connection management: MADs of
// 256 bytes that travel as datagrams between queue pairs 1. It has the bytes and
// their meaning; who sends what when is the business of internal/conn.
//
//	| MAD header, 24 bytes | body of the message, 232 bytes, private data last |
//
// A MAD is an array, and a pointer to it is a view: its length is checked once,
// by Parse, and after that nothing here can fail, whatever the bytes say. The
// layout is a table: each field of a message is a Field or a Span, named after
// the message, as ReqQPN is the queue pair in a REQ. Reading a field of another
// message gives bytes that mean nothing, and never panics.
//
// The layout is that of IBTA Vol 1, chapter 12, and annex A11 for what RDMA-CM
// puts into the private data. Fields that MADs of real kernels fill are held by
// golden tests.
package mad
