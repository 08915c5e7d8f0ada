package rping

import "encoding/binary"

// advertLen is how long each message is, in both directions.
const advertLen = 16

// An advert says which memory the peer may READ or WRITE, in big-endian numbers:
//
//	0       8      12      16
//	+-------+-------+-------+
//	| addr  | rkey  | bytes |
//	+-------+-------+-------+
type advert struct {
	addr uint64
	rkey uint32
	size uint32
}

func (a advert) bytes() (b [advertLen]byte) {
	binary.BigEndian.PutUint64(b[0:], a.addr)
	binary.BigEndian.PutUint32(b[8:], a.rkey)
	binary.BigEndian.PutUint32(b[12:], a.size)
	return b
}

func advertOf(b []byte) advert {
	return advert{binary.BigEndian.Uint64(b[0:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
}
