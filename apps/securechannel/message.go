package securechannel

import (
	"encoding/binary"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// What the sides say to each other over the control path, big-endian:
//
//	START  0 | messages | size    each side, before anything is sent
//	END    1                      the DPU, when both directions are through
const (
	kindStart = 0
	kindEnd   = 1

	startLen = 12
	endLen   = 4
)

// A start is what a side is going to send.
type start struct {
	messages int64
	size     int
}

func (s start) encode() []byte {
	b := make([]byte, startLen)
	binary.BigEndian.PutUint32(b, kindStart)
	binary.BigEndian.PutUint32(b[4:], uint32(s.messages))
	binary.BigEndian.PutUint32(b[8:], uint32(s.size))
	return b
}

func encodeEnd() []byte { return binary.BigEndian.AppendUint32(nil, kindEnd) }

// parse returns a START, or nil for an END.
func parse(b []byte) (*start, error) {
	if len(b) == endLen && binary.BigEndian.Uint32(b) == kindEnd {
		return nil, nil
	}
	if len(b) != startLen || binary.BigEndian.Uint32(b) != kindStart {
		return nil, fmt.Errorf("the other side sent a control message of %d bytes, which is neither START nor END: %w", len(b), core.ErrInvalidValue)
	}
	s := &start{int64(binary.BigEndian.Uint32(b[4:])), int(binary.BigEndian.Uint32(b[8:]))}
	if err := (Options{Messages: s.messages, Size: s.size}).Check(); err != nil {
		return nil, fmt.Errorf("the other side announces what cannot be: %w", err)
	}
	return s, nil
}
