// Package side has what the applications of two processes have in common: which
// side of the card a process is on, and the devices of that side.
package side

// A Side says where a process is.
type Side uint8

// The sides.
const (
	Host Side = 0 // the client of the channel
	DPU  Side = 1 // the server of the channel
)

// String returns "host" or "dpu".
func (s Side) String() string {
	if s == DPU {
		return "dpu"
	}
	return "host"
}

// Other returns the side of the peer.
func (s Side) Other() Side { return 1 - s }
