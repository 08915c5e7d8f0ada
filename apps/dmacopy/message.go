package dmacopy

import (
	"encoding/binary"
	"io/fs"
	"strings"
	"unicode"

	"github.com/gantry-rdma/gantry/mem"
)

// The kinds of messages: their first byte. The first three are DOCA's.
const (
	kindDirection = 1
	kindExport    = 2
	kindStatus    = 3
	kindReady     = 4
	kindDone      = 5
)

// A direction says whether a side has the file. All numbers of all messages are
// big-endian.
//
//	+------+------+-------------+------+
//	| kind | has  | permissions | size |
//	|  1   |  1   |      2      |  8   |
//	+------+------+-------------+------+
type direction struct {
	has  bool
	perm fs.FileMode // of the file
	size int64       // of the file, in bytes
}

func (d direction) encode() []byte {
	b := binary.BigEndian.AppendUint16([]byte{kindDirection, flag(d.has)}, uint16(d.perm.Perm()))
	return binary.BigEndian.AppendUint64(b, uint64(d.size))
}

// maxSize is the largest file: sums of sizes and chunks stay in 63 bits.
const maxSize = 1 << 62

func parseDirection(b []byte) (d direction, ok bool) {
	if len(b) != 12 {
		return d, false
	}
	d = direction{b[1] != 0, fs.FileMode(binary.BigEndian.Uint16(b[2:])).Perm(), int64(binary.BigEndian.Uint64(b[4:]))}
	return d, d.size >= 0 && d.size <= maxSize
}

// An export describes the host's window: slots of a chunk each.
//
//	+------+---------+--------+-------+---------------+
//	| kind | address | length | chunk | mem.ExportPCI |
//	|  1   |    8    |   8    |   4   |     rest      |
//	+------+---------+--------+-------+---------------+
type export struct {
	addr  mem.Addr
	chunk int
	slots int
	blob  []byte
}

func (e export) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{kindExport}, uint64(e.addr))
	b = binary.BigEndian.AppendUint64(b, uint64(e.slots)*uint64(e.chunk))
	b = binary.BigEndian.AppendUint32(b, uint32(e.chunk))
	return append(b, e.blob...)
}

// parseExport refuses windows that would take more memory than a side needs.
func parseExport(b []byte) (e export, ok bool) {
	if len(b) < 21 {
		return e, false
	}
	n, chunk := binary.BigEndian.Uint64(b[9:]), uint64(binary.BigEndian.Uint32(b[17:]))
	if chunk == 0 || n == 0 || n > maxWindow || n%chunk != 0 || n/chunk > maxSlots {
		return e, false
	}
	return export{mem.Addr(binary.BigEndian.Uint64(b[1:])), int(chunk), int(n / chunk), b[21:]}, true
}

// The limits of a window.
const (
	maxWindow = 256 << 20 // bytes
	maxSlots  = 256
)

// A status ends the part of a side: well, or with the reason why not.
//
//	+------+------+----------+--------+
//	| kind | good | checksum | reason |
//	|  1   |  1   |    4     |  rest  |
//	+------+------+----------+--------+
type status struct {
	good   bool
	sum    uint32 // CRC-32C of the file
	reason string
}

// maxReason bounds the text about a failure, in bytes.
const maxReason = 1000

func (s status) encode() []byte {
	b := binary.BigEndian.AppendUint32([]byte{kindStatus, flag(s.good)}, s.sum)
	return append(b, s.reason[:min(len(s.reason), maxReason)]...)
}

// parseStatus leaves out of the reason what a terminal would not show.
func parseStatus(b []byte) (s status, ok bool) {
	if len(b) < 6 || len(b) > 6+maxReason {
		return s, false
	}
	s = status{good: b[1] != 0, sum: binary.BigEndian.Uint32(b[2:])}
	s.reason = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(b[6:]), ""))
	return s, true
}

// encodeTurn makes a READY or DONE of chunk n.
//
//	+------+-------+
//	| kind | chunk |
//	|  1   |   8   |
//	+------+-------+
func encodeTurn(kind byte, n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(n))
}

func parseTurn(b []byte) (n int64, ok bool) {
	if len(b) != 9 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(b[1:])), true
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
