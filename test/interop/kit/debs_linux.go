package kit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrCannot is wrapped by the errors that say that this machine lacks what the
// peer is built from, or does not allow it.
var ErrCannot = errors.New("this machine cannot have a peer")

// packages are what tools and the guest's programs are in; what these depend on
// comes with them unless it is installed.
var packages = []string{"ibverbs-utils", "ibverbs-providers", "libibverbs-dev", "librdmacm-dev", "rdmacm-utils", "iproute2", "xz-utils"}

// qemuPackage has the emulator. A machine may have it already.
const qemuPackage = "qemu-system-x86"

// kernels are the packages that depend on the newest kernel of a series.
var kernels = map[string]string{
	"6.1":  "linux-image-amd64",
	"6.12": "linux-image-6.12-amd64",
}

// Kernels are those that a guest may have: in 6.1 the driver runs in tasklets,
// in 6.12 in work queues.
var Kernels = []string{"6.1", "6.12"}

// run runs a command and returns what it printed.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return string(out), nil
}

// unpack downloads packages, with what they depend on and this machine has not
// installed, and unpacks them into dir, which then exists.
func unpack(ctx context.Context, dir string, names ...string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	wanted, err := missing(ctx, names)
	if err != nil {
		return err
	}
	return unpackOnly(ctx, dir, wanted...)
}

// unpackOnly is unpack without what the packages depend on.
func unpackOnly(ctx context.Context, dir string, names ...string) (err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "unpack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	debs, root := filepath.Join(tmp, "debs"), filepath.Join(tmp, "root")
	if err := errors.Join(os.Mkdir(debs, 0o755), os.Mkdir(root, 0o755)); err != nil {
		return err
	}
	if _, err := run(ctx, debs, "apt-get", append([]string{"-q", "-o", "APT::Sandbox::User=root", "download"}, names...)...); err != nil {
		return fmt.Errorf("%w: %w", err, ErrCannot)
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := run(ctx, debs, "dpkg-deb", "-x", f, root); err != nil {
			return err
		}
	}
	return os.Rename(root, dir)
}

// missing returns which packages an installation of names would add. Where the
// lists of packages are missing too, root fetches them.
func missing(ctx context.Context, names []string) ([]string, error) {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("there is no %s, the peer is made of Debian packages: %w", tool, ErrCannot)
		}
	}
	simulate := append([]string{"-s", "--no-install-recommends", "install"}, names...)
	out, err := run(ctx, "", "apt-get", simulate...)
	if err != nil && os.Getuid() == 0 {
		if _, err := run(ctx, "", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60", "update"); err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrCannot)
		}
		out, err = run(ctx, "", "apt-get", simulate...)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrCannot)
	}
	wanted := slices.Clone(names) // also if they are installed
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Inst" && !slices.Contains(wanted, f[1]) {
			wanted = append(wanted, f[1])
		}
	}
	return wanted, nil
}

// A tree finds files in what was unpacked, and then in the machine.
type tree []string

// path returns where the file is, or "".
func (t tree) path(names ...string) string {
	for _, root := range t {
		for _, n := range names {
			p := filepath.Join(root, n)
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
				return p
			}
		}
	}
	return ""
}

// program returns where a program is.
func (t tree) program(name string) (string, error) {
	if p := t.path("usr/bin/"+name, "bin/"+name, "usr/sbin/"+name, "sbin/"+name); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("program %s: %w: %w", name, fs.ErrNotExist, ErrCannot)
}

// libraries are the folders of shared libraries, from the root.
var libraries = []string{"usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"}

// library returns where a shared library is.
func (t tree) library(name string) (string, error) {
	var names []string
	for _, l := range libraries {
		names = append(names, l+"/"+name)
	}
	if p := t.path(names...); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("library %s: %w: %w", name, fs.ErrNotExist, ErrCannot)
}
