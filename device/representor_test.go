package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

func TestADPUFunctionRepresentsItsHostFunction(t *testing.T) {
	reps, err := openTest(t, "03:00.1").Representors(device.FilterAll)
	if err != nil || len(reps) != 1 {
		t.Fatalf("Representors = %d, %v, want 1", len(reps), err)
	}
	r := reps[0]
	if same, err := r.Equal("07:00.1"); !same || err != nil {
		t.Errorf("Equal(07:00.1) = %v, %v, want true", same, err)
	}
	if _, err := r.Equal("pf1hpf"); !errors.Is(err, core.ErrInvalidValue) {
		t.Errorf("Equal of no address = %v, want ErrInvalidValue", err)
	}
	if r.FuncType() != device.PF || r.Hotplug() || r.Iface() != "pf1hpf" || len(r.VUID()) == 0 || len(r.VUID()) > 127 {
		t.Errorf("type %v, hotplug %v, iface %q, VUID %q", r.FuncType(), r.Hotplug(), r.Iface(), r.VUID())
	}
	host := openTest(t, r.PCI().String())
	if got, want := host.Info().IBDev(), "gantry_host1"; got != want {
		t.Errorf("the represented function is %s, want %s", got, want)
	}
}

func TestFilterSelectsRepresentors(t *testing.T) {
	d := openTest(t, "03:00.0")
	for f, want := range map[device.Filter]int{
		device.FilterAll: 1, device.FilterNet: 1, device.FilterEmulated: 0, device.FilterNet | device.FilterEmulated: 1,
	} {
		if reps, err := d.Representors(f); len(reps) != want || err != nil {
			t.Errorf("filter %d: %d representors, %v, want %d", f, len(reps), err, want)
		}
	}
	for _, f := range []device.Filter{1, 8, 1 << 31} {
		if _, err := d.Representors(f); !errors.Is(err, core.ErrInvalidValue) {
			t.Errorf("filter %d = %v, want ErrInvalidValue", f, err)
		}
	}
}

func TestRepresentorsExistOnlyOnTheDPUSide(t *testing.T) {
	for _, addr := range []string{"80:00.1", "07:00.0"} {
		_, err := openTest(t, addr).Representors(device.FilterAll)
		if !errors.Is(err, core.ErrInvalidValue) || !strings.Contains(err.Error(), "only on the DPU side") {
			t.Errorf("%s: %v, want ErrInvalidValue that says where they exist", addr, err)
		}
	}
}

func TestOpenRepresentorTakesOnlyItsOwn(t *testing.T) {
	d, other := openTest(t, "03:00.0"), openTest(t, "03:00.1")
	host := openTest(t, "07:00.0")
	reps, _ := other.Representors(device.FilterAll)
	for what, err := range map[string]error{
		"nil":             second(d.OpenRepresentor(nil)),
		"zero":            second(d.OpenRepresentor(new(device.RepInfo))),
		"another's":       second(d.OpenRepresentor(reps[0])),
		"on a host":       second(host.OpenRepresentor(reps[0])),
		"zero on a host":  second(host.OpenRepresentor(new(device.RepInfo))),
		"on no device":    second((*device.Device)(nil).OpenRepresentor(reps[0])),
		"on a zero value": second(new(device.Device).OpenRepresentor(reps[0])),
	} {
		if !errors.Is(err, core.ErrInvalidValue) {
			t.Errorf("%s: %v, want ErrInvalidValue", what, err)
		}
	}
}

func TestARepresentorHoldsItsDevice(t *testing.T) {
	d, err := testConfig().OpenPCI("03:00.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	reps, _ := d.Representors(device.FilterAll)
	a, err := d.OpenRepresentor(reps[0])
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.OpenRepresentor(reps[0])
	if err != nil || a != b {
		t.Fatalf("second OpenRepresentor = %p, %v, want %p", b, err, a)
	}
	if a.Device() != d || a.Info().PCI() != reps[0].PCI() {
		t.Error("the representor does not name its device, or what it represents")
	}
	if err := a.Hold(); err != nil {
		t.Error(err)
	}
	expect := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	expect("device Close with two opens", d.Close(), core.ErrInUse)
	expect("first Close", a.Close(), nil)
	expect("last Close while held", a.Close(), core.ErrInUse)
	a.Drop()
	expect("device Close before the last Close", d.Close(), core.ErrInUse)
	expect("last Close", a.Close(), nil)
	expect("Close too many", a.Close(), core.ErrBadState)
	expect("Hold when closed", a.Hold(), core.ErrBadState)
	expect("device Close", d.Close(), nil)
	expect("Representors of a closed device", second(d.Representors(device.FilterAll)), core.ErrBadState)
	expect("OpenRepresentor of a closed device", second(d.OpenRepresentor(reps[0])), core.ErrBadState)
}
