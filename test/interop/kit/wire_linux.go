package kit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/internal/pcapng"
	"golang.org/x/sys/unix"
)

// The two directions of a wire.
const (
	ToGuest = iota
	ToHost
)

// A Wire is the cable between this machine and a guest. At this end it is a TAP
// interface, at the other the stream that the emulator speaks: the length of a
// frame as a big-endian word, then the frame. Each RoCEv2 packet is verified,
// captured, and spoilt as the weather has it; other frames pass.
//
// Only a wire that is longer than its queue loses anything in good weather.
type Wire struct {
	tap  *os.File
	vm   net.Conn
	plug *os.File // the guest's end
	over sync.WaitGroup

	mu      sync.Mutex
	weather Weather
	film    *film
	tally   [2]Tally
	storms  [2]storm
	last    [2]time.Time // when a packet was sent
}

// queueLength is how many frames wait in a direction at most.
const queueLength = 8192

// largestFrame has room for the largest MTU.
const largestFrame = 9216

// NewWire makes a wire whose end at this machine is a new interface. It exists
// until Close.
func NewWire(name string) (w *Wire, err error) {
	w = &Wire{}
	if w.tap, err = openTap(name); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, w.tap.Close())
	}
	own := os.NewFile(uintptr(pair[0]), "wire")
	w.plug = os.NewFile(uintptr(pair[1]), "plug")
	w.vm, err = net.FileConn(own)
	if err := errors.Join(err, own.Close()); err != nil {
		return nil, errors.Join(err, w.plug.Close(), w.tap.Close())
	}
	w.carry(ToGuest, w.readTap, w.writeVM)
	w.carry(ToHost, w.readVM, w.writeTap)
	return w, nil
}

// openTap makes a TAP interface, which needs the right to do so in the network
// namespace.
func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w: %w", err, ErrCannot)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("interface %s: %w: %w", name, err, ErrCannot), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// carry moves the frames of one direction until an end is closed. What is read
// waits in a queue, so that a guest that stands still loses nothing.
func (w *Wire) carry(way int, read func([]byte) (int, error), write func([]byte) error) {
	queue := make(chan []byte, queueLength)
	w.over.Add(2)
	go func() {
		defer w.over.Done()
		defer close(queue)
		b := make([]byte, largestFrame)
		for {
			n, err := read(b)
			if err != nil {
				return
			}
			select {
			case queue <- append([]byte(nil), b[:n]...):
			default:
				w.mu.Lock()
				w.tally[way].Overrun++
				w.mu.Unlock()
			}
		}
	}()
	go func() {
		defer w.over.Done()
		w.blow(way, queue, write)
		for range queue { // the other end is closed: nobody waits for these
			continue
		}
	}()
}

func (w *Wire) readTap(b []byte) (int, error) { return w.tap.Read(b) }

func (w *Wire) writeTap(b []byte) error {
	_, err := w.tap.Write(b)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL) {
		return nil // the interface is down, or the frame is none
	}
	return err
}

func (w *Wire) readVM(b []byte) (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.vm, head[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > uint32(len(b)) {
		return 0, fmt.Errorf("a frame of %d bytes", n)
	}
	return io.ReadFull(w.vm, b[:n])
}

func (w *Wire) writeVM(b []byte) error {
	_, err := w.vm.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// Record begins a capture of the RoCEv2 packets, as their senders sent them,
// and counts from zero. It replaces the one before.
func (w *Wire) Record(to io.Writer, weather Weather) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.film = &film{w: bufio.NewWriterSize(to, 1<<18)}
	w.film.blocks.Start()
	w.tally = [2]Tally{}
	w.last = [2]time.Time{}
	w.weather = weather
	for way := range w.storms {
		w.storms[way] = newStorm(weather, way)
	}
}

// SetWeather changes the weather of a recording.
func (w *Wire) SetWeather(weather Weather) {
	w.mu.Lock()
	w.weather = weather
	w.mu.Unlock()
}

// Stop ends the capture and the weather, and returns what passed in both
// directions.
func (w *Wire) Stop() (t [2]Tally, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.weather = Weather{}
	if w.film != nil {
		err = w.film.close()
		w.film = nil
	}
	return w.tally, err
}

// A film writes a capture.
type film struct {
	w      *bufio.Writer
	blocks pcapng.Blocks
	err    error
}

// packet adds an IP packet, and what happened to it.
func (f *film) packet(b []byte, way int, comment string) {
	at := f.blocks.Begin(time.Now(), len(b))
	f.blocks.Buf = append(f.blocks.Buf, b...)
	f.blocks.EndNoted(at, [2]pcapng.Direction{ToGuest: pcapng.Outbound, ToHost: pcapng.Inbound}[way], comment)
	f.write()
}

func (f *film) write() {
	if f.err == nil {
		_, f.err = f.w.Write(f.blocks.Buf)
	}
	f.blocks.Buf = f.blocks.Buf[:0]
}

func (f *film) close() error {
	f.write()
	if f.err != nil {
		return f.err
	}
	return f.w.Flush()
}

// Close ends the wire. The guest should have ended.
func (w *Wire) Close() error {
	err := errors.Join(w.tap.Close(), w.vm.Close(), w.plug.Close())
	w.over.Wait()
	return err
}
