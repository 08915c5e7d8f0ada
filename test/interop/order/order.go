// Package order is what the interop tests say to the guest, and what it
// answers: one JSON document a line, over a serial port.
package order

// An Order is one thing that the guest is to do. Several may be under way.
type Order struct {
	ID    int      `json:"id"`              // chosen by the host, in each answer
	Run   []string `json:"run,omitempty"`   // a program of /bin and its arguments
	Limit int      `json:"limit,omitempty"` // seconds until it is killed
	Kill  bool     `json:"kill,omitempty"`  // kill the program that order ID runs
	Read  string   `json:"read,omitempty"`  // a pattern: the contents of these files
	Write string   `json:"write,omitempty"` // a file, which gets Text
	Text  string   `json:"text,omitempty"`  // what is written
	Log   bool     `json:"log,omitempty"`   // the kernel's messages since the last time
	Off   bool     `json:"off,omitempty"`   // power off
}

// An Answer is what an order has led to. A program's output comes in as many as
// it takes; the last answer to an order is Done.
type Answer struct {
	ID    int               `json:"id"`              // of the order
	Out   string            `json:"out,omitempty"`   // of both streams
	Files map[string]string `json:"files,omitempty"` // by path
	Error string            `json:"error,omitempty"` // why the order was not followed
	Exit  int               `json:"exit,omitempty"`  // the program's status; -1: a signal ended it
	Done  bool              `json:"done,omitempty"`  // this is the last answer
}

// Hello is the order that the guest answers unasked once it is ready.
const Hello = 0

// Port is the name of the serial port.
const Port = "orders"
