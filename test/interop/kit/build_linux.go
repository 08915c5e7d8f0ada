package kit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// An Image is what a guest is booted from.
type Image struct {
	Kernel  string // of Kernels
	Release string // as uname says it
	vmlinuz string
	initrd  string
	tools   tree
}

// Cache is the folder where what was downloaded and built stays. It may be
// removed at any time that no guest runs.
func Cache() (string, error) {
	if d := os.Getenv("GANTRY_INTEROP_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	d, err := os.UserCacheDir()
	if err != nil && os.Getuid() == 0 {
		d, err = "/var/cache", nil // a job without a home
	}
	return filepath.Join(d, "gantry-interop"), err
}

// modules are loaded in this order, each behind those that it depends on. A
// kernel may have some of them built in.
var modules = []string{"virtio_pci", "virtio_console", "virtio_net", "crc32_generic", "crc32-pclmul",
	"ib_uverbs", "rdma_rxe", "rdma_ucm"}

// programs are those of the guest.
var programs = []string{"ip", "rdma", "ibv_devinfo", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
	"ibv_srq_pingpong", "rping", "ucmatose", "udaddy"}

// compiled are those of the guest whose source is in the guest's folder.
var compiled = []string{"qp", "conn"}

// Build makes the image for one of Kernels. What it downloaded it keeps, so
// that only the first call takes long and needs a network. source is the folder
// of the interop tests.
func Build(ctx context.Context, source, kernel string) (*Image, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("the guest is for linux/amd64: %w", ErrCannot)
	}
	meta := kernels[kernel]
	if meta == "" {
		return nil, fmt.Errorf("kernel %q, there are %v", kernel, Kernels)
	}
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	names := packages
	if _, err := exec.LookPath(emulator); err != nil {
		names = append(names[:len(names):len(names)], qemuPackage)
	}
	root := filepath.Join(cache, "tools-"+digest(names...))
	if err := unpack(ctx, root, names...); err != nil {
		return nil, err
	}
	i := &Image{Kernel: kernel, tools: tree{root, "/"}, initrd: filepath.Join(cache, "initrd-"+kernel)}
	if err := i.takeKernel(ctx, cache, meta); err != nil || Inside() {
		return i, err // the process that entered has packed it
	}
	return i, i.pack(ctx, source, cache)
}

// digest names a choice of packages.
func digest(names ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(names, " "))))[:12]
}

// kernelDir is the folder of the unpacked kernel.
func (i *Image) kernelDir(cache string) string { return filepath.Join(cache, "kernel-"+i.Kernel) }

// takeKernel unpacks the kernel's package, which the package meta depends on.
func (i *Image) takeKernel(ctx context.Context, cache, meta string) error {
	dir := i.kernelDir(cache)
	if _, err := os.Stat(dir); err != nil {
		wanted, err := missing(ctx, []string{meta})
		if err != nil {
			return err
		}
		var image string
		for _, w := range wanted {
			if strings.HasPrefix(w, "linux-image-") && w != meta {
				image = w
			}
		}
		if image == "" {
			return fmt.Errorf("package %s has no kernel of its own: %w", meta, ErrCannot)
		}
		if err := unpackOnly(ctx, dir, image); err != nil {
			return err
		}
	}
	boot, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(boot) != 1 {
		return fmt.Errorf("%s has %d kernels, want one: %w", dir, len(boot), errors.Join(err, ErrCannot))
	}
	i.vmlinuz = boot[0]
	i.Release = strings.TrimPrefix(filepath.Base(boot[0]), "vmlinuz-")
	return nil
}

// pack makes the first file system of the guest. It is quick, and done anew
// each time.
func (i *Image) pack(ctx context.Context, source, cache string) (err error) {
	tmp, err := os.MkdirTemp(cache, "pack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	file, err := os.Create(filepath.Join(tmp, "initrd"))
	if err != nil {
		return err
	}
	a := newArchive(file)
	err = errors.Join(i.addPrograms(ctx, a, source, tmp), i.addModules(ctx, a, cache, tmp))
	if err := errors.Join(err, a.close(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), i.initrd)
}

// addPrograms puts in the guest's own programs, and those of the packages with
// their libraries.
func (i *Image) addPrograms(ctx context.Context, a *archive, source, tmp string) error {
	for _, d := range []string{"proc", "sys", "dev", "tmp", "etc"} {
		a.dir(d)
	}
	if err := goBuild(ctx, source, filepath.Join(tmp, "init")); err != nil {
		return err
	}
	a.copy("init", filepath.Join(tmp, "init"))
	l := linker{tools: i.tools, archive: a, have: map[string]bool{}}
	for _, name := range compiled {
		if err := i.compile(ctx, filepath.Join(source, "guest", name, name+".c"), filepath.Join(tmp, name)); err != nil {
			return err
		}
		if err := l.add("bin/"+name, filepath.Join(tmp, name)); err != nil {
			return err
		}
	}
	for _, p := range programs {
		from, err := i.tools.program(p)
		if err != nil {
			return err
		}
		if err := l.add("bin/"+p, from); err != nil {
			return err
		}
	}
	return l.addDriver()
}

// goBuild builds the guest's first process.
func goBuild(ctx context.Context, source, to string) error {
	c := exec.CommandContext(ctx, "go", "build", "-o", to, "./guest")
	c.Dir = source
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guest: %w: %s", err, out)
	}
	return nil
}

// compile compiles a program against the libraries that were unpacked.
func (i *Image) compile(ctx context.Context, source, to string) error {
	if _, err := exec.LookPath("gcc"); err != nil {
		return fmt.Errorf("there is no gcc: %w", ErrCannot)
	}
	args := []string{"-O2", "-Wall", "-Wextra", "-I", filepath.Join(i.tools[0], "usr/include"), "-o", to, source,
		"-Wl,--allow-shlib-undefined", "-Wl,--as-needed"}
	for _, name := range []string{"libibverbs.so.1", "librdmacm.so.1"} {
		lib, err := i.tools.library(name)
		if err != nil {
			return err
		}
		args = append(args, lib)
	}
	_, err := run(ctx, "", "gcc", args...)
	return err
}

// addModules puts in the kernel's modules, and the order to load them in.
func (i *Image) addModules(ctx context.Context, a *archive, cache, tmp string) error {
	m := moduleSet{files: map[string]string{}, done: map[string]bool{}, tmp: tmp}
	if err := m.find(i.kernelDir(cache)); err != nil {
		return err
	}
	xz, err := i.tools.program("xz")
	if err != nil {
		return err
	}
	m.unxz = func(from string, to io.Writer) error {
		c := exec.CommandContext(ctx, xz, "-dc", from)
		c.Env, c.Stdout = i.tools.environ(), to
		return c.Run()
	}
	for _, name := range modules {
		if err := m.add(name); err != nil {
			return err
		}
	}
	if !m.done["rdma_rxe"] {
		return fmt.Errorf("kernel %s has no rdma_rxe: %w", i.Release, ErrCannot)
	}
	var order strings.Builder
	for _, f := range m.order {
		order.WriteString(filepath.Base(f) + "\n")
		a.copy("lib/modules/"+filepath.Base(f), f)
	}
	a.file("lib/modules/order", []byte(order.String()))
	return nil
}

// environ is the environment for programs that were unpacked.
func (t tree) environ() []string {
	var dirs []string
	for _, l := range libraries {
		dirs = append(dirs, filepath.Join(t[0], l))
	}
	return append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(dirs, ":"),
		"QEMU_MODULE_DIR="+filepath.Join(t[0], libraries[0], "qemu"))
}
