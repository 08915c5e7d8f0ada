package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/gantry-rdma/gantry/internal/sys"
	"golang.org/x/sys/unix"
)

const network = "unixpacket" // messages, in order, on a connection

// A Listener has a name until Close. Its methods may be called from any
// goroutine.
type Listener struct {
	dir    *directory
	file   string
	lock   int
	socket *net.UnixListener
	open   context.Context // ends with Close
	end    context.CancelFunc
	once   sync.Once
}

// Listen takes a name, of any length and with any bytes in it. It is ErrTaken
// when a process that is alive has it, which may be this one.
func Listen(name string) (*Listener, error) {
	d, err := openDirectory()
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l := &Listener{dir: d, file: fileName(name), lock: -1}
	if err := l.take(); err != nil {
		d.close()
		return nil, fmt.Errorf("listen on %q: %w", name, err)
	}
	l.open, l.end = context.WithCancel(context.Background())
	return l, nil
}

// take takes the lock and makes the socket, with the directory locked.
func (l *Listener) take() error {
	if err := l.dir.lock(); err != nil {
		return err
	}
	defer l.dir.unlock()
	l.dir.sweep()
	lock, err := l.dir.take(l.file)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrTaken
	}
	if err != nil {
		return err
	}
	_ = unix.Unlinkat(l.dir.fd, l.file+socketSuffix, 0) // of an owner whose lock somebody removed
	l.socket, err = net.ListenUnix(network, &net.UnixAddr{Net: network, Name: l.dir.address(l.file + socketSuffix)})
	if err != nil {
		l.dir.remove(l.file)
		_ = unix.Close(lock)
		return err
	}
	l.socket.SetUnlinkOnClose(false) // Close does, in its order
	l.lock = lock
	return nil
}

// Accept waits for the next connection of a process of the same user. Others
// are closed. A system that is short of descriptors or memory makes it wait.
// After Close it is net.ErrClosed.
func (l *Listener) Accept() (*Conn, error) {
	for {
		u, err := l.socket.AcceptUnix()
		if err != nil {
			if short(err) && pause(l.open) == nil {
				continue
			}
			return nil, fmt.Errorf("accept: %w", err)
		}
		if ofThisUser(u) {
			return &Conn{u: u}, nil
		}
		_ = u.Close()
	}
}

// short reports whether accept failed for want of something that may come back.
func short(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM)
}

// ofThisUser reports whether the peer is a process of the same user.
func ofThisUser(c syscall.Conn) bool {
	uid, err := sys.PeerUID(c)
	return err == nil && uid == os.Geteuid()
}

// Close gives the name back, and ends Accept. Connections stay. Closing twice
// is harmless.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		l.end()
		// If the directory stays locked, the next Listen sweeps.
		if err = l.dir.lock(); err == nil {
			l.dir.remove(l.file)
			l.dir.unlock()
		}
		err = errors.Join(err, l.socket.Close(), os.NewSyscallError("close", unix.Close(l.lock)))
		l.dir.close()
	})
	return err
}
