package device_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/google/go-cmp/cmp"
)

// testConfig is a machine with loopback, an Ethernet with three addresses, one
// that is down, one without addresses, and one that vanishes while it is
// listed. The operating system gives them out of order.
func testConfig() device.Config {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	return device.Config{
		Interfaces: func() ([]net.Interface, error) {
			return []net.Interface{
				{Index: 4, MTU: 9000, Name: "test-down", HardwareAddr: mac},
				{Index: 1, MTU: 65536, Name: "test-lo", Flags: net.FlagUp | net.FlagLoopback},
				{Index: 40000, MTU: 1500, Name: "test-bare", Flags: net.FlagUp},
				{Index: 2, MTU: 1500, Name: "test-eth", Flags: net.FlagUp, HardwareAddr: mac},
				{Index: 3, MTU: 1500, Name: "test-gone", Flags: net.FlagUp},
			}, nil
		},
		Addrs: func(n net.Interface) ([]net.Addr, error) {
			switch n.Name {
			case "test-lo":
				return []net.Addr{cidr("127.0.0.1/8"), cidr("::1/128")}, nil
			case "test-eth":
				return []net.Addr{cidr("192.0.2.7/24"), cidr("192.0.2.8/24"), cidr("fe80::7/64"), &net.UnixAddr{}}, nil
			case "test-down":
				return []net.Addr{cidr("198.51.100.1/24")}, nil
			case "test-gone":
				return nil, errors.New("no such interface")
			}
			return nil, nil
		},
	}
}

func cidr(s string) *net.IPNet {
	ip, n, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return &net.IPNet{IP: ip, Mask: n.Mask}
}

// list returns the devices of c.
func list(t *testing.T, c device.Config) []*device.Info {
	t.Helper()
	infos, err := c.List()
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return infos
}

func TestListNamesDevicesInOrder(t *testing.T) {
	type row struct{ PCI, IBDev, Iface string }
	var got []row
	for _, i := range list(t, testConfig()) {
		got = append(got, row{i.PCI().String(), i.IBDev(), i.Iface()})
	}
	want := []row{
		{"0000:80:00.1", "gantry0", "test-lo"},
		{"0000:80:00.2", "gantry1", "test-eth"},
		{"0000:80:00.4", "gantry2", "test-down"},
		{"0001:9c:08.0", "gantry3", "test-bare"},
		{"0000:03:00.0", "gantry_dpu0", ""},
		{"0000:03:00.1", "gantry_dpu1", ""},
		{"0000:07:00.0", "gantry_host0", ""},
		{"0000:07:00.1", "gantry_host1", ""},
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("devices (-got +want):\n%s", d)
	}
}

func TestInterfaceNumbersNeverShareAnAddress(t *testing.T) {
	seen := map[device.Address]int{}
	for _, n := range []int{1, 7, 8, 255, 256, 257, 1 << 14, 1<<15 - 1, 1 << 15, 1<<15 + 1, 1 << 20, 1<<31 - 1} {
		c := device.Config{Virtual: -1,
			Interfaces: func() ([]net.Interface, error) { return []net.Interface{{Index: n}}, nil },
			Addrs:      func(net.Interface) ([]net.Addr, error) { return nil, nil }}
		i := list(t, c)[0]
		if before, ok := seen[i.PCI()]; ok {
			t.Errorf("interfaces %d and %d are both %v", before, n, i.PCI())
		}
		seen[i.PCI()] = n
		if back, err := device.ParseAddress(i.PCI().String()); back != i.PCI() || err != nil {
			t.Errorf("interface %d: address %v does not read back: %v", n, i.PCI(), err)
		}
	}
}

func TestGIDsAreAllAddressesOfTheInterface(t *testing.T) {
	i := list(t, testConfig())[1]
	want := []netip.Addr{
		netip.MustParseAddr("::ffff:192.0.2.7"), netip.MustParseAddr("::ffff:192.0.2.8"), netip.MustParseAddr("fe80::7"),
	}
	if d := cmp.Diff(i.GIDs(), want, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("GIDs (-got +want):\n%s", d)
	}
	if got, want := i.IPv4(), netip.MustParseAddr("192.0.2.7"); got != want {
		t.Errorf("IPv4 = %v, want %v", got, want)
	}
	if got, want := i.IPv6(), netip.MustParseAddr("fe80::7"); got != want {
		t.Errorf("IPv6 = %v, want %v", got, want)
	}
	if got, want := i.MAC(), [6]byte{2, 0, 0, 0, 0, 9}; got != want {
		t.Errorf("MAC = %x, want %x", got, want)
	}
	i.GIDs()[0] = netip.Addr{}
	if got := i.GIDs()[0]; got != want[0] {
		t.Errorf("after the caller wrote into its slice, GID 0 = %v, want %v", got, want[0])
	}
}

func TestADeviceWithoutAddressesHasNone(t *testing.T) {
	i := list(t, testConfig())[3]
	if i.IPv4().IsValid() || i.IPv6().IsValid() || len(i.GIDs()) != 0 || i.MAC() != [6]byte{} {
		t.Errorf("IPv4 %v, IPv6 %v, GIDs %v, MAC %x, want none", i.IPv4(), i.IPv6(), i.GIDs(), i.MAC())
	}
}

func TestActiveMTUFitsTheInterface(t *testing.T) {
	for _, c := range []struct{ mtu, want int }{
		{0, 256}, {335, 256}, {336, 256}, {591, 256}, {592, 512}, {1103, 512}, {1104, 1024}, {1500, 1024},
		{2127, 1024}, {2128, 2048}, {4175, 2048}, {4176, 4096}, {9000, 4096}, {65536, 4096},
	} {
		got := list(t, device.Config{
			Interfaces: func() ([]net.Interface, error) { return []net.Interface{{Index: 1, MTU: c.mtu}}, nil },
			Addrs:      func(net.Interface) ([]net.Addr, error) { return nil, nil },
		})[0]
		if got.ActiveMTU() != c.want || got.MTU() != c.mtu {
			t.Errorf("interface MTU %d: ActiveMTU = %d, MTU = %d, want %d, %d", c.mtu, got.ActiveMTU(), got.MTU(), c.want, c.mtu)
		}
	}
}

func TestSupportsAnswersBeforeAnythingIsOpen(t *testing.T) {
	all := device.FeatureDMA | device.FeatureRDMA | device.FeatureComch | device.FeatureSyncEvent
	want := map[string]device.Feature{
		"gantry0":      device.FeatureDMA | device.FeatureRDMA | device.FeatureSyncEvent,
		"gantry1":      device.FeatureDMA | device.FeatureRDMA | device.FeatureSyncEvent,
		"gantry2":      device.FeatureDMA | device.FeatureSyncEvent, // down
		"gantry3":      device.FeatureDMA | device.FeatureSyncEvent, // no address
		"gantry_dpu0":  device.FeatureDMA | device.FeatureComch | device.FeatureSyncEvent,
		"gantry_host1": device.FeatureDMA | device.FeatureComch | device.FeatureSyncEvent,
	}
	for _, i := range list(t, testConfig()) {
		set, ok := want[i.IBDev()]
		if !ok {
			continue
		}
		for f := device.FeatureDMA; f <= device.FeatureSyncEvent; f <<= 1 {
			if got, want := i.Supports(f), set&f != 0; got != want {
				t.Errorf("%s.Supports(%#x) = %v, want %v", i.IBDev(), f, got, want)
			}
		}
		if !i.Supports(set) || i.Supports(all) || i.Supports(0) || i.Supports(all+1) {
			t.Errorf("%s: a set is supported only as a whole, and no set or an unknown bit is not", i.IBDev())
		}
	}
}

func TestInfoAnswersEveryQuery(t *testing.T) {
	infos := list(t, testConfig())
	vhca := map[uint16]string{}
	for _, i := range infos {
		if other, ok := vhca[i.VHCA()]; ok {
			t.Errorf("%s and %s share VHCA %d", other, i.IBDev(), i.VHCA())
		}
		vhca[i.VHCA()] = i.IBDev()
		if i.LID() != 0 || i.ActiveRate() != 0 || i.FuncType() != device.PF {
			t.Errorf("%s: LID %d, rate %d, type %v, want 0, 0, PF", i.IBDev(), i.LID(), i.ActiveRate(), i.FuncType())
		}
		if _, ok := i.SFIndex(); ok {
			t.Errorf("%s has an SF index and is no SF", i.IBDev())
		}
		if got, want := i.OnDPU(), i.PCI().Bus == 3; got != want {
			t.Errorf("%s.OnDPU = %v, want %v", i.IBDev(), got, want)
		}
		if got, want := i.Up(), i.Iface() != "test-down"; got != want {
			t.Errorf("%s.Up = %v, want %v", i.IBDev(), got, want)
		}
	}
}

func TestEqualTakesBothFormsOfAnAddress(t *testing.T) {
	i := list(t, testConfig())[4]
	for _, c := range []struct {
		addr string
		want bool
		err  error
	}{
		{"03:00.0", true, nil}, {"0000:03:00.0", true, nil}, {"03:00.1", false, nil},
		{"0001:03:00.0", false, nil}, {"nonsense", false, core.ErrInvalidValue},
	} {
		if got, err := i.Equal(c.addr); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Equal(%q) = %v, %v, want %v, %v", c.addr, got, err, c.want, c.err)
		}
	}
}

func TestVirtualSetsTheNumberOfFunctions(t *testing.T) {
	none := func() ([]net.Interface, error) { return nil, nil }
	for _, c := range []struct{ virtual, want int }{{-1, 0}, {0, 4}, {1, 2}, {8, 16}} {
		if got := len(list(t, device.Config{Virtual: c.virtual, Interfaces: none})); got != c.want {
			t.Errorf("Virtual %d: %d devices, want %d", c.virtual, got, c.want)
		}
	}
	if _, err := (device.Config{Virtual: 9}).List(); !errors.Is(err, core.ErrInvalidValue) {
		t.Errorf("Virtual 9: %v, want ErrInvalidValue", err)
	}
}

func TestListReportsTheOperatingSystem(t *testing.T) {
	broken := errors.New("no netlink")
	c := device.Config{Interfaces: func() ([]net.Interface, error) { return nil, broken }}
	if _, err := c.List(); !errors.Is(err, core.ErrOperatingSystem) || !errors.Is(err, broken) {
		t.Errorf("List = %v, want ErrOperatingSystem and its cause", err)
	}
	if _, err := c.OpenPCI("03:00.0", nil); !errors.Is(err, core.ErrOperatingSystem) {
		t.Errorf("OpenPCI = %v, want ErrOperatingSystem", err)
	}
}

func TestTheMachineItselfHasDevices(t *testing.T) {
	infos, err := device.List()
	if err != nil {
		t.Fatal(err)
	}
	again, err := device.List()
	if err != nil || len(infos) < 4 || len(again) != len(infos) {
		t.Fatalf("List twice: %d and %d devices, %v, want the same and at least 4", len(infos), len(again), err)
	}
	for n := range infos {
		if infos[n].PCI() != again[n].PCI() || infos[n].IBDev() != again[n].IBDev() {
			t.Errorf("device %d: %v %s, then %v %s", n, infos[n].PCI(), infos[n].IBDev(), again[n].PCI(), again[n].IBDev())
		}
	}
}

func TestFuncTypeHasAName(t *testing.T) {
	for f, want := range map[device.FuncType]string{
		device.PF: "PF", device.VF: "VF", device.SF: "SF", 9: "unknown function type",
	} {
		if got := f.String(); got != want {
			t.Errorf("FuncType(%d) = %q, want %q", uint8(f), got, want)
		}
	}
}
