// Package pcap reads the captures that tests hold against the code.
package pcap

import (
	"encoding/binary"
	"fmt"
	"os"
)

// Packets returns the IP packets of a classic pcap file of Ethernet frames, in
// their order.
func Packets(file string) (all [][]byte, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	const fileHead, recordHead, etherHead, ethernet = 24, 16, 14, 1
	le := binary.LittleEndian
	if len(b) < fileHead || le.Uint32(b) != 0xa1b2c3d4 || le.Uint32(b[20:]) != ethernet {
		return nil, fmt.Errorf("%s is no little-endian Ethernet capture", file)
	}
	for b = b[fileHead:]; len(b) > 0; {
		if len(b) < recordHead {
			return nil, fmt.Errorf("%s ends within a record", file)
		}
		n := int(le.Uint32(b[8:]))
		if n < etherHead || n > len(b)-recordHead {
			return nil, fmt.Errorf("%s has a frame of %d bytes", file, n)
		}
		all = append(all, b[recordHead+etherHead:recordHead+n])
		b = b[recordHead+n:]
	}
	return all, nil
}
