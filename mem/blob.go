package mem

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/gantry-rdma/gantry/device"
)

// ExportSize is the size of what ExportPCI returns, in bytes.
const ExportSize = 104

const (
	blobMagic   = "GantryPC"
	blobVersion = 1
)

// A blob is what ExportPCI returns and Import reads. In bytes, little-endian:
//
//	  0  magic
//	  8  version        u32
//	 12  rights         u32
//	 16  owner address  u64
//	 24  length         u64
//	 32  card           domain u16, bus, slot, function; 3 zeroes
//	 40  export         u64
//	 48  rendezvous     16 bytes: where the owner listens
//	 64  secret         32 bytes
//	 96  checksum       u32: CRC-32 of all before
//	100  zero           u32
//
// The checksum finds damage; forgery is found by the owner, who compares every
// byte with its own.
type blob struct {
	access     Access // PCIReadOnly or PCIReadWrite
	base       Addr
	n          int
	card       device.Address
	id         uint64
	rendezvous [16]byte
	secret     [32]byte
}

func putCard(p []byte, a device.Address) {
	binary.LittleEndian.PutUint16(p, a.Domain)
	p[2], p[3], p[4] = a.Bus, a.Slot, a.Function
	p[5], p[6], p[7] = 0, 0, 0
}

func getCard(p []byte) device.Address {
	return device.Address{Domain: binary.LittleEndian.Uint16(p), Bus: p[2], Slot: p[3], Function: p[4]}
}

func (b *blob) bytes() []byte {
	p := make([]byte, ExportSize)
	copy(p, blobMagic)
	binary.LittleEndian.PutUint32(p[8:], blobVersion)
	binary.LittleEndian.PutUint32(p[12:], uint32(b.access))
	binary.LittleEndian.PutUint64(p[16:], uint64(b.base))
	binary.LittleEndian.PutUint64(p[24:], uint64(b.n))
	putCard(p[32:], b.card)
	binary.LittleEndian.PutUint64(p[40:], b.id)
	copy(p[48:64], b.rendezvous[:])
	copy(p[64:96], b.secret[:])
	binary.LittleEndian.PutUint32(p[96:], crc32.ChecksumIEEE(p[:96]))
	return p
}

// blobFault is what is wrong with bytes that should be a blob; "" is nothing.
type blobFault string

const (
	blobDamaged    blobFault = "it is damaged, or not what ExportPCI returned"
	blobOfOtherAge blobFault = "it is of another version of Gantry"
)

// parseBlob reads what bytes wrote. What it returns is possible, and no more.
func parseBlob(p []byte) (b blob, wrong blobFault) {
	if len(p) < 12 || string(p[:8]) != blobMagic {
		return b, blobDamaged
	}
	if binary.LittleEndian.Uint32(p[8:]) != blobVersion {
		return b, blobOfOtherAge
	}
	if len(p) != ExportSize || binary.LittleEndian.Uint32(p[96:]) != crc32.ChecksumIEEE(p[:96]) ||
		binary.LittleEndian.Uint32(p[100:]) != 0 {
		return b, blobDamaged
	}
	n := binary.LittleEndian.Uint64(p[24:])
	b = blob{
		access: Access(binary.LittleEndian.Uint32(p[12:])),
		base:   Addr(binary.LittleEndian.Uint64(p[16:])),
		n:      int(n),
		card:   getCard(p[32:]),
		id:     binary.LittleEndian.Uint64(p[40:]),
	}
	copy(b.rendezvous[:], p[48:64])
	copy(b.secret[:], p[64:96])
	switch {
	case b.access != PCIReadOnly && b.access != PCIReadWrite,
		b.n < 1, uint64(b.n) != n, // more than this process can have
		uint64(b.base) > ^uint64(0)-n,
		p[37]|p[38]|p[39] != 0:
		return blob{}, blobDamaged
	}
	return b, ""
}
