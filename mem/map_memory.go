package mem

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// An Addr is an address in the address space of the one who owns the memory.
// For a map of this process it is where the memory is; for an imported map it
// is where the exporter has it. So an Addr names a byte, and is not a pointer.
type Addr uint64

// AddrOf returns the address of the first byte of b, 0 for nil.
func AddrOf(b []byte) Addr { return Addr(sys.Addr(b)) }

// offset returns how far [a, a+n) lies behind the start of size bytes at base,
// and whether it lies within them. Addresses that would wrap do not.
func (a Addr) offset(n int, base Addr, size int) (off int, ok bool) {
	far := uint64(a - base) // huge if a is before base, as is a negative n
	if far > uint64(size) || uint64(n) > uint64(size)-far {
		return 0, false
	}
	return int(far), true
}

// AllocOptions say what kind of memory Allocate takes.
type AllocOptions struct {
	// HugePages asks for pages of 2 MiB. Where there are none, ordinary
	// pages come; so it never makes Allocate fail.
	HugePages bool
	// Shareable asks for memory that can be exported to another process.
	// Platforms other than Linux answer ErrNotSupported.
	Shareable bool
}

// SetRange gives the map the bytes of b. They stay the caller's, and must stay
// as they are until Destroy; the map keeps b reachable.
//
// A slice over memory that can fault, such as a mapped file, does not belong
// here: a fault in it ends the process. Use MapFile.
//
// Memory is set once: after that it is ErrNotPermitted. It is ErrInvalidValue
// for no bytes and ErrBadState while the map is started.
func (m *Map) SetRange(b []byte) error {
	if err := m.takesMemory("set range", len(b)); err != nil {
		return err
	}
	m.setMemory(b, nil)
	return nil
}

// Allocate gives the map n bytes of zeroed, page-aligned memory, which Destroy
// frees. It fails as SetRange does, with ErrNoMemory when there is not enough,
// and with ErrNotSupported for what the platform does not have.
func (m *Map) Allocate(n int, o AllocOptions) error {
	if err := m.takesMemory("allocate", n); err != nil {
		return err
	}
	p, err := sys.AllocPages(n, sys.PagesOptions{Huge: o.HugePages, Shareable: o.Shareable})
	if err != nil {
		return fmt.Errorf("allocate: %w: %w", memoryStatus(err), err)
	}
	m.setMemory(p.Bytes(), p)
	return nil
}

// MapFile gives the map n bytes of f from offset off on, shared with everyone
// who has the file. The offset need not be aligned, and f can be closed
// afterwards. If the bytes go away while a task copies them, because someone
// truncated the file or the file system is full, the task fails.
//
// A map of a file that is not writable is LocalReadOnly, and no right to write
// can be set; if one was set before, MapFile is ErrNotPermitted, as it is when
// f was not opened for what is asked. It fails as SetRange does, with
// ErrInvalidValue for anything but a regular file and for bytes that the file
// does not have (an empty file has none), and with ErrNotSupported on
// platforms other than Linux.
func (m *Map) MapFile(f *os.File, off int64, n int, writable bool) error {
	if err := m.takesMemory("map file", n); err != nil {
		return err
	}
	if err := holdsBytes(f, off, n); err != nil {
		return fmt.Errorf("map file: %w", err)
	}
	if !writable && m.accessSet && m.access&anyWrite != 0 {
		return fmt.Errorf("map file read-only: the access is %s: %w", m.access, core.ErrNotPermitted)
	}
	p, err := sys.MapFile(f, off, n, writable)
	if err != nil {
		return fmt.Errorf("map file %s: %w: %w", f.Name(), memoryStatus(err), err)
	}
	m.setMemory(p.Bytes(), p)
	m.faulting = true
	if !writable {
		m.readOnly, m.access = true, m.access&^anyWrite
	}
	return nil
}

// holdsBytes checks that f has n bytes from off on.
func holdsBytes(f *os.File, off int64, n int) error {
	info, err := f.Stat()
	switch {
	case errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrInvalid):
		return fmt.Errorf("%w: %w", core.ErrInvalidValue, err)
	case err != nil:
		return fmt.Errorf("%w: %w", core.ErrOperatingSystem, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: %w", f.Name(), core.ErrInvalidValue)
	case off < 0 || off > info.Size() || int64(n) > info.Size()-off:
		return fmt.Errorf("%d bytes from %d on: %s has %d: %w", n, off, f.Name(), info.Size(), core.ErrInvalidValue)
	}
	return nil
}

// SetDMABuf would give the map n bytes of a dma-buf, which start offset bytes
// in. Nothing here has such memory: it is ErrNotSupported.
func (m *Map) SetDMABuf(fd int, offset int64, n int) error {
	return fmt.Errorf("set dma-buf %d, %d bytes from %d on: %w", fd, n, offset, core.ErrNotSupported)
}

// takesMemory checks that n bytes of memory can be set now.
func (m *Map) takesMemory(what string, n int) error {
	if err := m.changeable(what, core.ErrBadState); err != nil {
		return err
	}
	switch {
	case n < 1:
		return fmt.Errorf("%s: %d bytes: %w", what, n, core.ErrInvalidValue)
	case m.mem != nil:
		return fmt.Errorf("%s: the map has its memory: %w", what, core.ErrNotPermitted)
	}
	return nil
}

func (m *Map) setMemory(b []byte, p *sys.Pages) {
	m.base, m.mem, m.pages = AddrOf(b), b[:len(b):len(b)], p
}

// memoryStatus is the code for an error of the operating system.
func memoryStatus(err error) core.Status {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return core.ErrNotSupported
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOSPC):
		return core.ErrNoMemory
	case errors.Is(err, os.ErrPermission):
		return core.ErrNotPermitted
	}
	return core.ErrOperatingSystem
}

// Range returns where the memory is and how many bytes it has. It is
// ErrBadState before the memory is set, and after Destroy.
func (m *Map) Range() (Addr, int, error) {
	switch {
	case m == nil:
		return 0, 0, core.ErrInvalidValue
	case m.mem == nil:
		return 0, 0, core.ErrBadState
	}
	return m.base, len(m.mem), nil
}

// Bytes returns the memory; nil before it is set, and after Destroy. A slice
// of memory that the map owns must not be touched after Destroy.
func (m *Map) Bytes() []byte { return m.mem }

// Aligned reports whether the memory starts and ends on a cache line of 64
// bytes. Other memory works, but hardware would be slow on it.
func (m *Map) Aligned() bool {
	return m.base%alignment == 0 && len(m.mem)%alignment == 0
}

// Bufs returns how many bufs of the map are alive; 0 in a thread-safe map,
// which does not count.
func (m *Map) Bufs() int { return m.bufs }

// Faulting reports whether touching the memory can fault, because others can
// take it away. Then it must be copied by a call that survives that.
func (m *Map) Faulting() bool { return m.faulting }

// window returns the n bytes at a, and whether the map has them.
func (m *Map) window(a Addr, n int) ([]byte, bool) {
	off, ok := a.offset(n, m.base, len(m.mem))
	if !ok {
		return nil, false
	}
	return m.mem[off : off+n : off+n], true
}
