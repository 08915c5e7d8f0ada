package comch

import "encoding/binary"

// A noticeKind says what a notice is about.
type noticeKind uint8

const (
	noticeNew  noticeKind = iota + 1 // a consumer started; two descriptors
	noticeAck                        // ... and was mapped: producers can reach it
	noticeNak                        // ... and could not be mapped
	noticeGone                       // a consumer stops
	noticeLeft                       // ... and nobody touches its memory any more
	noticeBye                        // the sender is done: what is in its stream was the last
)

// A notice is a set-up message on the socket of an established connection.
//
//	 0      1      2      4        8            16           24       28      32
//	┌──────┬──────┬──────┬────────┬────────────┬────────────┬────────┬───────┐
//	│ kind │  0   │  id  │   0    │ queue      │ memory     │receives│ imm   │
//	└──────┴──────┴──────┴────────┴────────────┴────────────┴────────┴───────┘
//
// Numbers are little-endian. Only noticeNew has anything behind id.
type notice struct {
	kind noticeKind
	offer
}

const noticeLen = 32

func (n *notice) encode() (b [noticeLen]byte) {
	b[0] = byte(n.kind)
	binary.LittleEndian.PutUint16(b[2:], n.id)
	binary.LittleEndian.PutUint64(b[8:], n.queue)
	binary.LittleEndian.PutUint64(b[16:], n.memory)
	binary.LittleEndian.PutUint32(b[24:], n.receives)
	binary.LittleEndian.PutUint32(b[28:], n.imm)
	return b
}

// parseNotice reports false for bytes that are no notice, or one that has
// another number of descriptors than its kind has.
func parseNotice(b []byte, fds int) (n notice, ok bool) {
	if len(b) != noticeLen {
		return notice{}, false
	}
	n = notice{kind: noticeKind(b[0]), offer: offer{
		id:       binary.LittleEndian.Uint16(b[2:]),
		queue:    binary.LittleEndian.Uint64(b[8:]),
		memory:   binary.LittleEndian.Uint64(b[16:]),
		receives: binary.LittleEndian.Uint32(b[24:]),
		imm:      binary.LittleEndian.Uint32(b[28:]),
	}}
	want := 0
	if n.kind == noticeNew {
		want = 2
	}
	return n, fds == want && n.kind >= noticeNew && n.kind <= noticeBye && n.id != 0xffff && (n.id != 0 || n.kind == noticeBye)
}
