package mem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/sys"
)

var (
	errEnded     = errors.New("its owner has ended all its exports, or has ended, or meets others elsewhere (both need one GANTRY_RUNTIME_DIR)")
	errRefused   = errors.New("its owner does not have it any more, or never had")
	errOtherCard = errors.New("it was exported for another card")
	errSilent    = fmt.Errorf("its owner has not answered for %v: does it stand still?", answerWithin)
)

// imported is what an imported map has to do with its owner.
type imported struct {
	conn  *ipc.Conn
	ended chan struct{} // closed by the goroutine that watches conn
}

// Import makes a map of memory that another process exported with ExportPCI;
// dev works on it. It asks the owner, for five seconds at most, and gets memory
// that is mapped for reading alone if the export is. The word and the value are
// its user data.
//
// The map is started, has the one device and the right of the export, and all
// addresses in it are the owner's. Nothing about it can be changed: calls that
// would are ErrNotPermitted, or ErrBadState as for every started map. Destroy
// ends it.
//
// When the owner stops or destroys its map, or ends in whatever way, the map is
// revoked: it gives no more bufs, Lend of those that it gave is ErrIOFailed, and
// so tasks with them fail. Bytes of it can still be touched until Destroy, but
// they mean nothing any more.
//
// It is ErrInvalidValue for a nil device and for bytes that are damaged or none
// of ExportPCI, ErrNotSupported for those of another version, ErrNotPermitted
// when the owner has ended the export or its process has ended, the export is
// for another card, the bytes were forged or the memory is not what they say,
// ErrNoMemory when there is no room, and ErrDriver when the owner does not
// answer.
func Import(word uint64, value any, export []byte, dev *device.Device) (*Map, error) {
	if dev == nil {
		return nil, fmt.Errorf("import map: the device is nil: %w", core.ErrInvalidValue)
	}
	if err := ImportPCISupported(dev.Info()); err != nil {
		return nil, err
	}
	b, wrong := parseBlob(export)
	if wrong != "" {
		code := core.ErrInvalidValue
		if wrong == blobOfOtherAge {
			code = core.ErrNotSupported
		}
		return nil, fmt.Errorf("import map from %d bytes: %s: %w", len(export), wrong, code)
	}
	if err := dev.Hold(); err != nil {
		return nil, fmt.Errorf("import map: %w", err)
	}
	m, err := b.open(export, cardOf(dev))
	if err != nil {
		dev.Drop()
		code := importStatus(err)
		if silent(err) {
			err = errSilent
		}
		return nil, fmt.Errorf("import map: %w: %w", code, err)
	}
	m.devs, m.maxDevs = []*device.Device{dev}, 1
	m.userWord, m.userAny = word, value
	return m, nil
}

// Imported reports whether the map was made by Import.
func (m *Map) Imported() bool { return m.imported != nil }

// Revoked reports whether the owner of an imported map ended it, or died; or
// whether it was destroyed. Any goroutine may ask.
func (m *Map) Revoked() bool { return m.imported != nil && !m.Started() }

// open asks the owner for the one on the other side of a card, or on the same,
// and maps the memory.
func (b *blob) open(export []byte, card device.Address) (*Map, error) {
	if card != b.card {
		return nil, fmt.Errorf("for card %s, and the device is of card %s: %w", b.card, card, errOtherCard)
	}
	c, fd, err := b.ask(export, time.Now().Add(answerWithin))
	if err != nil {
		return nil, err
	}
	writable := b.access == PCIReadWrite
	pages, err := sys.ImportPages(fd, b.n, writable)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	m := &Map{
		base: b.base, mem: pages.Bytes(), pages: pages,
		access: b.access, accessSet: true, readOnly: !writable,
		faulting: true, foreign: true, wasStarted: true,
		imported: &imported{conn: c, ended: make(chan struct{})},
	}
	m.state.Store(started)
	go m.watch()
	return m, nil
}

// ask gets the descriptor from the owner.
func (b *blob) ask(export []byte, until time.Time) (*ipc.Conn, int, error) {
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	c, err := ipc.Dial(ctx, rendezvousName(b.rendezvous))
	if errors.Is(err, ipc.ErrNobody) {
		return nil, -1, errEnded
	}
	if err != nil {
		return nil, -1, err
	}
	_ = c.SetDeadline(until)
	if err = c.Send(export); err == nil {
		var fd int
		if fd, err = answerFrom(c); err == nil {
			_ = c.SetDeadline(time.Time{})
			return c, fd, nil
		}
	}
	_ = c.Close()
	return nil, -1, err
}

// answerFrom reads what the owner says: yes, with one descriptor, or no.
func answerFrom(c *ipc.Conn) (fd int, err error) {
	var p [1]byte
	_, fds, err := c.Recv(p[:])
	switch {
	case err != nil:
		return -1, err
	case p[0] == answerYes && len(fds) == 1:
		return fds[0], nil
	}
	ipc.CloseAll(fds)
	return -1, errRefused
}

// refusals are the errors of Import that no other try makes better.
var refusals = []error{
	errEnded, errRefused, errOtherCard, ipc.ErrStranger, ipc.ErrGone, ipc.ErrMessage, io.EOF,
	sys.ErrNotSealed, sys.ErrTooSmall,
}

// silent reports whether the owner has not answered in time.
func silent(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// importStatus is the code for what can go wrong between importer and owner.
func importStatus(err error) core.Status {
	if silent(err) {
		return core.ErrDriver
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return core.ErrNotPermitted
		}
	}
	return memoryStatus(err)
}

// watch waits for the end of the connection, which says nothing before, and
// revokes the map.
func (m *Map) watch() {
	defer close(m.imported.ended)
	var p [1]byte
	_, fds, _ := m.imported.conn.Recv(p[:])
	ipc.CloseAll(fds)
	m.state.And(^started)
}

// end leaves the owner, and returns when nobody watches any more.
func (i *imported) end() {
	_ = i.conn.Close()
	<-i.ended
}
