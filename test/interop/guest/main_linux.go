// Command guest is the first and only process of the virtual machine that the
// interop tests boot. It makes rxe0 on the network card and does what the host
// says.
//
// The kernel's command line says:
//
//	gantry.addr=ADDRESS/LENGTH,...  the addresses of eth0
//	gantry.mtu=BYTES                its MTU
//	gantry.life=SECONDS             power off after that, whatever happens
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/order"
	"golang.org/x/sys/unix"
)

func main() {
	life := 30 * time.Minute
	err := prepare(&life)
	time.AfterFunc(life, off)
	if err != nil {
		fmt.Println("guest:", err)
	}
	if e := serve(err); e != nil {
		fmt.Println("guest:", e)
	}
	off()
}

// off ends the machine.
func off() {
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // nothing is left to do if it fails
}

// prepare does what an init does, as far as rxe needs it.
func prepare(life *time.Duration) error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if err := os.Setenv("PATH", "/bin"); err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	args := map[string]string{}
	for _, f := range strings.Fields(string(line)) {
		if k, v, ok := strings.Cut(f, "="); ok {
			args[k] = v
		}
	}
	if d, err := time.ParseDuration(args["gantry.life"] + "s"); err == nil {
		*life = d
	}
	if err := loadModules(); err != nil {
		return err
	}
	return network(args)
}

// loadModules loads what lies in /lib/modules, in the order of the file there.
func loadModules() error {
	list, err := os.ReadFile("/lib/modules/order")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(list)) {
		b, err := os.ReadFile("/lib/modules/" + name)
		if err != nil {
			return err
		}
		// A processor may lack what a module accelerates.
		if err := unix.InitModule(b, ""); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// network sets the addresses, without the second that IPv6 takes to see whether
// somebody else has them, and makes rxe0.
func network(args map[string]string) error {
	files, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_dad")
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("0"), 0); err != nil {
			return err
		}
	}
	steps := [][]string{{"ip", "link", "set", "lo", "up"}, {"ip", "link", "set", "eth0", "mtu", args["gantry.mtu"], "up"}}
	for a := range strings.SplitSeq(args["gantry.addr"], ",") {
		steps = append(steps, []string{"ip", "addr", "add", a, "dev", "eth0"})
	}
	steps = append(steps, []string{"rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0"})
	for _, s := range steps {
		if out, err := exec.Command(s[0], s[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(s, " "), err, out)
		}
	}
	return nil
}

// port opens the serial port of the host's orders.
func port() (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil && strings.TrimSpace(string(b)) == order.Port {
			return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(n)), os.O_RDWR, 0)
		}
	}
	return nil, errors.New("no serial port for orders")
}
