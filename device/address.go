package device

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gantry-rdma/gantry/core"
)

// An Address names a device the way PCI does: domain, bus, slot, function.
// The addresses of software devices are made up, but stable: see [Config].
// It is comparable, and the zero value is 0000:00:00.0.
type Address struct {
	Domain   uint16 // 0 to 0xffff; the short form of the text leaves 0 out
	Bus      uint8  // 0 to 0xff
	Slot     uint8  // 0 to 31
	Function uint8  // 0 to 7
}

// ParseAddress reads "DDDD:BB:DD.F", or "BB:DD.F" for domain 0000. All digits
// are hexadecimal, of either case, and none may be missing. Anything else is
// ErrInvalidValue.
func ParseAddress(s string) (Address, error) {
	full := s
	if strings.Count(s, ":") == 1 {
		full = "0000:" + s
	}
	if len(full) != len("DDDD:BB:DD.F") || full[4] != ':' || full[7] != ':' || full[10] != '.' {
		return Address{}, addressError(s)
	}
	domain, ok1 := parseHex(full[0:4], 0xffff)
	bus, ok2 := parseHex(full[5:7], 0xff)
	slot, ok3 := parseHex(full[8:10], 31)
	function, ok4 := parseHex(full[11:12], 7)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return Address{}, addressError(s)
	}
	return Address{uint16(domain), uint8(bus), uint8(slot), uint8(function)}, nil
}

// String returns the long form, which ParseAddress reads back.
func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Slot, a.Function)
}

// parseHex reads hexadecimal digits and refuses a value above limit.
func parseHex(s string, limit uint64) (uint64, bool) {
	v, err := strconv.ParseUint(s, 16, 16)
	return v, err == nil && v <= limit
}

func addressError(s string) error {
	return fmt.Errorf("PCI address %q: want DDDD:BB:DD.F or BB:DD.F in hexadecimal, slot at most 1f, function at most 7: %w",
		s, core.ErrInvalidValue)
}
