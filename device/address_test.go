package device_test

import (
	"errors"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"pgregory.net/rapid"
)

func TestParseAddressTakesBothForms(t *testing.T) {
	for _, c := range []struct {
		in   string
		want device.Address
	}{
		{"03:00.0", device.Address{Bus: 3}},
		{"0000:03:00.1", device.Address{Bus: 3, Function: 1}},
		{"ABcd:fF:1f.7", device.Address{Domain: 0xabcd, Bus: 0xff, Slot: 31, Function: 7}},
	} {
		got, err := device.ParseAddress(c.in)
		if got != c.want || err != nil {
			t.Errorf("ParseAddress(%q) = %+v, %v, want %+v", c.in, got, err, c.want)
		}
	}
}

func TestParseAddressRefusesAnythingElse(t *testing.T) {
	for _, in := range []string{
		"", ":", "::", "03", "03:00", "03:00.", "3:00.0", "03:0.0", "03:00.00", "03:00:0",
		"003:00.0", "000:03:00.0", "00000:03:00.0", "0000:03:00.0 ", " 03:00.0",
		"03:20.0", "03:00.8", "0g:00.0", "+3:00.0", "-3:00.0", "0x:00.0", "0_:00.0",
		"0000:0000:03:00.0", "0000.03:00:0", "é3:00.0", "mlx5_0",
	} {
		got, err := device.ParseAddress(in)
		if !errors.Is(err, core.ErrInvalidValue) {
			t.Errorf("ParseAddress(%q) = %v, %v, want ErrInvalidValue", in, got, err)
		}
	}
}

func TestAddressTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := device.Address{
			Domain:   rapid.Uint16().Draw(t, "domain"),
			Bus:      rapid.Uint8().Draw(t, "bus"),
			Slot:     rapid.Uint8Max(31).Draw(t, "slot"),
			Function: rapid.Uint8Max(7).Draw(t, "function"),
		}
		got, err := device.ParseAddress(want.String())
		if got != want || err != nil {
			t.Fatalf("ParseAddress(%q) = %v, %v", want, got, err)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	f.Add("0000:03:00.0")
	f.Add("03:00.0")
	f.Add("::.")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := device.ParseAddress(s)
		if err != nil {
			return
		}
		if again, err := device.ParseAddress(a.String()); again != a || err != nil {
			t.Errorf("%q parsed to %v, which reads back as %v, %v", s, a, again, err)
		}
	})
}
