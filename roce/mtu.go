package roce

// An MTU is a path MTU, in the encoding of the connection manager's messages:
// 1 for 256 bytes to 5 for 4096. It counts payload bytes of one packet.
type MTU uint8

// The five path MTUs there are.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// netOverhead is what the kernel's driver keeps for headers when it derives the
// path MTU from that of the network device.
const netOverhead = 80

// MTUOf returns the MTU of exactly that many bytes.
func MTUOf(bytes int) (m MTU, ok bool) {
	for m = MTU256; m <= MTU4096; m++ {
		if m.Bytes() == bytes {
			return m, true
		}
	}
	return 0, false
}

// MTUForLink returns the largest MTU that fits a network device whose own MTU
// is that many bytes. It keeps 80 bytes for headers, as the kernel's driver
// does: 1500 gives 1024, 4176 gives 4096, and never less than 256.
func MTUForLink(bytes int) MTU {
	m := MTU4096
	for m > MTU256 && m.Bytes() > bytes-netOverhead {
		m--
	}
	return m
}

// Valid reports whether m is one of the five.
func (m MTU) Valid() bool { return MTU256 <= m && m <= MTU4096 }

// Bytes returns the payload bytes that a full packet carries, or 0 when m is
// not valid.
func (m MTU) Bytes() int {
	if !m.Valid() {
		return 0
	}
	return 128 << m
}

// Packets returns how many packets, and so how many PSNs, a message of n bytes
// takes: at least one, because an empty message is a packet too. With an m that
// is not valid, or a negative n, it is 1.
func (m MTU) Packets(n int) int {
	if n <= 0 || !m.Valid() {
		return 1
	}
	return (n-1)>>(7+m) + 1
}

// String returns the number of bytes.
func (m MTU) String() string {
	switch m {
	case MTU256:
		return "256"
	case MTU512:
		return "512"
	case MTU1024:
		return "1024"
	case MTU2048:
		return "2048"
	case MTU4096:
		return "4096"
	}
	return "invalid MTU"
}
