package device_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openTest opens the device at addr of testConfig and closes it after the test.
func openTest(t *testing.T, addr string) *device.Device {
	t.Helper()
	d, err := testConfig().OpenPCI(addr, nil)
	if err != nil {
		t.Fatalf("OpenPCI: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

func TestOpenGivesOneDeviceAndCounts(t *testing.T) {
	i := list(t, testConfig())[1]
	same := list(t, testConfig())[1] // another Info of the same device
	a, err := device.Open(i)
	if err != nil {
		t.Fatal(err)
	}
	b, err := device.Open(same)
	if err != nil || a != b {
		t.Fatalf("second Open = %p, %v, want %p", b, err, a)
	}
	if a.Info() != i {
		t.Error("Info is not what the device was first opened with")
	}
	for n := range 2 {
		if err := a.Close(); err != nil {
			t.Errorf("Close %d: %v", n, err)
		}
	}
	if err := a.Close(); !errors.Is(err, core.ErrBadState) {
		t.Errorf("Close too many = %v, want ErrBadState", err)
	}
	c, err := device.Open(i)
	if err != nil || c == a {
		t.Errorf("Open after the last Close = %p, %v, want a new device, not %p", c, err, a)
	}
	if err := a.Close(); !errors.Is(err, core.ErrBadState) {
		t.Errorf("Close of the old device = %v, want ErrBadState", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close of the new device: %v", err)
	}
}

func TestLastCloseWaitsForHolders(t *testing.T) {
	i := list(t, testConfig())[0]
	d, _ := device.Open(i)
	device.Open(i)
	d.Hold()
	d.Hold()
	if err := d.Close(); err != nil {
		t.Errorf("Close that is not the last = %v, want nil", err)
	}
	for holds := 2; holds > 0; holds-- {
		err := d.Close()
		if !errors.Is(err, core.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(holds, " users")) {
			t.Errorf("last Close with %d holds = %v, want ErrInUse that says so", holds, err)
		}
		d.Drop()
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close after the last Drop: %v", err)
	}
	if err := d.Hold(); !errors.Is(err, core.ErrBadState) {
		t.Errorf("Hold on a closed device = %v, want ErrBadState", err)
	}
}

func TestADropTooManyTakesNobodysHold(t *testing.T) {
	d := openTest(t, "03:00.0")
	d.Drop()
	if err := d.Hold(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.Is(err, core.ErrInUse) {
		t.Errorf("Close = %v, want ErrInUse: the Drop before the Hold must not count", err)
	}
	d.Drop()
}

func TestWhatIsNoDeviceIsRefused(t *testing.T) {
	var none *device.Device
	var noRep *device.Representor
	for what, err := range map[string]error{
		"Open(nil)":            second(device.Open(nil)),
		"Open(zero)":           second(device.Open(new(device.Info))),
		"nil Close":            none.Close(),
		"nil Hold":             none.Hold(),
		"nil Representors":     second(none.Representors(0)),
		"nil OpenRepresentor":  second(none.OpenRepresentor(nil)),
		"zero Close":           new(device.Device).Close(),
		"zero Hold":            new(device.Device).Hold(),
		"zero Representors":    second(new(device.Device).Representors(0)),
		"nil rep Close":        noRep.Close(),
		"nil rep Hold":         noRep.Hold(),
		"zero rep Close":       new(device.Representor).Close(),
		"zero rep Hold":        new(device.Representor).Hold(),
		"OpenPCI of nonsense":  second(device.OpenPCI("mlx5_0", nil)),
		"OpenPCI of no text":   second(device.OpenPCI("", nil)),
		"zero OpenRepresentor": second(new(device.Device).OpenRepresentor(new(device.RepInfo))),
	} {
		if !errors.Is(err, core.ErrInvalidValue) {
			t.Errorf("%s = %v, want ErrInvalidValue", what, err)
		}
	}
	none.Drop()
	noRep.Drop()
	new(device.Device).Drop()
	new(device.Representor).Drop()
}

func second[T any](_ T, err error) error { return err }

func TestOpenPCINamesWhatExists(t *testing.T) {
	_, err := testConfig().OpenPCI("42:00.0", nil)
	if !errors.Is(err, core.ErrNotFound) {
		t.Fatalf("OpenPCI = %v, want ErrNotFound", err)
	}
	for _, want := range []string{"0000:42:00.0", "0000:80:00.2 (gantry1)", "0000:03:00.0 (gantry_dpu0)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
}

func TestOpenPCIAsksForTheCapability(t *testing.T) {
	var asked []string
	_, err := testConfig().OpenPCI("80:00.2", func(i *device.Info) error {
		asked = append(asked, i.IBDev())
		return core.ErrNotSupported
	})
	if !errors.Is(err, core.ErrNotFound) || !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("refused device: %v, want ErrNotFound and the reason", err)
	}
	if got := core.StatusOf(err); got != core.ErrNotFound {
		t.Errorf("refused device: code %v, want ErrNotFound", got)
	}
	if len(asked) != 1 || asked[0] != "gantry1" {
		t.Errorf("asked %v, want only the device with the address", asked)
	}
	d, err := testConfig().OpenPCI("0000:80:00.2", func(*device.Info) error { return nil })
	if err != nil || d.Info().Iface() != "test-eth" {
		t.Fatalf("accepted device: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenAndCloseFromManyGoroutines(t *testing.T) {
	i := list(t, testConfig())[1]
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				d, err := device.Open(i)
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.Hold(); err != nil {
					t.Errorf("Hold on an open device: %v", err)
				}
				d.Drop()
				// Whoever holds the device has it open, so this is not the last.
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	d, err := device.Open(i)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("the only Close = %v, want nil", err)
	}
	if err := d.Close(); !errors.Is(err, core.ErrBadState) {
		t.Errorf("opens were lost or invented: Close = %v, want ErrBadState", err)
	}
}
