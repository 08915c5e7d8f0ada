package mem

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/internal/ipc"
)

// The way of an import:
//
//  1. The importer connects to the rendezvous that the blob names.
//  2. It sends the blob, if that is for the card of its device.
//  3. The owner compares every byte with the blob that it made, and answers
//     with one byte and the descriptor of the memory.
//  4. Both keep the connection and say nothing more. Its end is the end of the
//     import: closed by the importer, by the owner's Stop, or by a death.

const (
	// A side answers within this time, or not at all: the other side may be stopped.
	answerWithin = 5 * time.Second

	// maxGuests is how many connections the exports of a process have at most.
	maxGuests = 1024
)

// The answers of an owner.
const (
	answerYes byte = iota + 1
	answerNo       // there is no such export
)

// exported are the exports of this process.
var exported exports

// exports is a set of exports that share one rendezvous. It is there as long as
// there are any.
type exports struct {
	mu   sync.Mutex
	last uint64 // id given out
	at   *rendezvous
}

// An export is memory that others may ask for. Only guests changes.
type export struct {
	blob  blob
	bytes []byte // of the blob
	fd    int    // of the memory, which stays until remove returns
	// guests are the goroutines that may use fd.
	guests sync.WaitGroup
}

// A rendezvous is where importers ask. The mutex of exports guards its maps.
type rendezvous struct {
	name     [16]byte
	listener *ipc.Listener
	list     map[uint64]*export
	guests   map[*ipc.Conn]*export // of each connection: nil until it has one
	running  sync.WaitGroup        // the goroutines of it all
}

// rendezvousName is what a rendezvous is called between processes.
func rendezvousName(name [16]byte) string { return "mem " + hex.EncodeToString(name[:]) }

// add makes the blob of e, and lets others ask for it.
func (x *exports) add(e *export) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at == nil {
		r := &rendezvous{list: map[uint64]*export{}, guests: map[*ipc.Conn]*export{}}
		_, _ = rand.Read(r.name[:]) // it never fails
		l, err := ipc.Listen(rendezvousName(r.name))
		if err != nil {
			return err
		}
		r.listener, x.at = l, r
		r.running.Go(func() { x.welcome(r) })
	}
	x.last++
	e.blob.id, e.blob.rendezvous = x.last, x.at.name
	_, _ = rand.Read(e.blob.secret[:])
	e.bytes = e.blob.bytes()
	x.at.list[e.blob.id] = e
	return nil
}

// remove ends e and all imports of it. When it returns nobody uses the
// descriptor any more.
func (x *exports) remove(e *export) {
	x.mu.Lock()
	r := x.at
	delete(r.list, e.blob.id)
	last := len(r.list) == 0
	for c, of := range r.guests {
		if of == e || last {
			_ = c.Close()
		}
	}
	if last {
		x.at = nil
	}
	x.mu.Unlock()
	e.guests.Wait()
	if last {
		_ = r.listener.Close()
		r.running.Wait()
	}
}

// welcome accepts importers until the rendezvous ends.
func (x *exports) welcome(r *rendezvous) {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		x.mu.Lock()
		ok := x.at == r && len(r.guests) < maxGuests
		if ok {
			r.guests[c] = nil
		}
		x.mu.Unlock()
		if !ok {
			_ = c.Close()
			continue
		}
		r.running.Go(func() { x.serve(r, c) })
	}
}

// serve answers one importer, and keeps the connection until either side ends.
func (x *exports) serve(r *rendezvous, c *ipc.Conn) {
	defer func() {
		_ = c.Close()
		x.mu.Lock()
		delete(r.guests, c)
		x.mu.Unlock()
	}()
	_ = c.SetDeadline(time.Now().Add(answerWithin))
	var p [ExportSize + 1]byte
	n, fds, err := c.Recv(p[:])
	ipc.CloseAll(fds)
	if err != nil || n != ExportSize || len(fds) > 0 {
		return
	}
	e := x.find(r, c, p[:ExportSize])
	if e == nil {
		_ = c.Send([]byte{answerNo})
		return
	}
	defer e.guests.Done()
	if c.Send([]byte{answerYes}, e.fd) != nil || c.SetDeadline(time.Time{}) != nil {
		return
	}
	_, fds, _ = c.Recv(p[:]) // there is nothing to say: it is the end
	ipc.CloseAll(fds)
}

// find returns the export that was asked for, and makes c one of its guests. It
// returns nil if there is no such export.
func (x *exports) find(r *rendezvous, c *ipc.Conn, asked []byte) *export {
	b, wrong := parseBlob(asked)
	x.mu.Lock()
	defer x.mu.Unlock()
	e := r.list[b.id]
	if wrong != "" || e == nil || subtle.ConstantTimeCompare(e.bytes, asked) != 1 {
		return nil
	}
	r.guests[c] = e
	e.guests.Add(1)
	return e
}
