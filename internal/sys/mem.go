package sys

import (
	"fmt"
	"math"
	"os"
)

// Pages is memory taken from the operating system in whole pages: anonymous,
// shareable, or a part of a file. It belongs to whoever made it, until Free;
// a slice of it that is touched after Free kills the process.
type Pages struct {
	mem  []byte // what was asked for, inside raw
	raw  []byte // what was mapped: unmapping wants exactly this
	fd   int    // descriptor of shareable memory, or -1
	huge bool
}

// PagesOptions say what kind of memory AllocPages takes.
type PagesOptions struct {
	// Huge asks for pages of 2 MiB. Where there are none, ordinary pages
	// come, with the advice to merge them.
	Huge bool
	// Shareable asks for memory that another process can map through FD.
	Shareable bool
}

// Bytes returns the memory: as many bytes as were asked for, nil after Free.
func (p *Pages) Bytes() []byte { return p.mem }

// FD returns the descriptor of shareable memory, or -1. It stays with p.
func (p *Pages) FD() int { return p.fd }

// Huge reports whether the memory lies in huge pages for certain. Ordinary
// pages that the kernel may merge do not count.
func (p *Pages) Huge() bool { return p.huge }

// roundUp returns n rounded up to a multiple of page, a power of two.
func roundUp(n, page int) (int, bool) {
	if n > math.MaxInt-page {
		return 0, false
	}
	return (n + page - 1) &^ (page - 1), true
}

// failed says which call could not be done for how many bytes. The error
// number stays inside: errors.Is finds it.
func failed(call string, n int, err error) error {
	return fmt.Errorf("%d bytes: %w", n, os.NewSyscallError(call, err))
}
