package comch

import (
	"context"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// descriptors counts the open descriptors of the process.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// dial connects to a server as somebody who may do what he likes.
func (r *rig) dial(name string) *ipc.Conn {
	r.Helper()
	conn, err := ipc.Dial(context.Background(), meetingPoint(r.host.Info().PCI(), name))
	r.want("dial", err, nil)
	r.Cleanup(func() { _ = conn.Close() })
	return conn
}

var honest = hello{version: helloVersion, message: 100, queue: 10}

// lies are what a client may say first.
var lies = map[string][]byte{
	"garbage":             []byte("GET / HTTP/1.1\r\n\r\n"),
	"one byte":            {1},
	"another version":     hello{version: helloVersion + 1, message: 100, queue: 10}.encode(),
	"half a greeting":     honest.encode()[:20],
	"messages of nothing": hello{version: helloVersion, queue: 10}.encode(),
	"messages too long":   hello{version: helloVersion, message: maxMessage + 1, queue: 10}.encode(),
	"no queue":            hello{version: helloVersion, message: 100}.encode(),
	"a queue too long":    hello{version: helloVersion, message: 100, queue: 1 << 31}.encode(),
	"refused":             hello{version: helloVersion, code: core.ErrFull, message: 100, queue: 10}.encode(),
}

func TestAClientThatLiesDoesNotComeIn(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(2, 4)
	before := descriptors(t)
	rejected := s.Rejected()
	for what, lie := range lies {
		conn := r.dial(t.Name())
		r.want(what, conn.Send(lie), nil)
		rejected++
		r.until(what, func() bool { return s.Rejected() == rejected })
		_ = conn.Close()
	}
	conn := r.dial(t.Name()) // descriptors that nobody asked for
	r.want("send", conn.Send(honest.encode(), 0, 1), nil)
	r.until("rejected", func() bool { return s.Rejected() == rejected+1 })
	_ = conn.Close()
	r.want("send", c.send("still here"), nil)
	r.until("it came", func() bool { return len(s.got) == 1 })
	if len(s.events) != 1 {
		t.Errorf("the server was told %v", s.events)
	}
	r.same(before)
	c.shut()
	s.shut()
}

// same waits until as many descriptors are open as before.
func (r *rig) same(before int) {
	r.Helper()
	r.until("descriptors closed", func() bool { runtime.Gosched(); return descriptors(r) == before })
}

func TestTheServerSaysWhichVersionItSpeaks(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 1)
	r.want("start", s.Start(), nil)
	conn := r.dial(t.Name())
	r.want("greet", conn.Send(lies["another version"]), nil)
	var b [64]byte
	n, _, err := conn.Recv(b[:])
	r.want("answer", err, nil)
	_, err = parseHello(b[:n])
	r.want("refusal", err, core.ErrUnsupportedVersion)
	s.shut()
}

func TestAClientThatSaysNothingBlocksNobody(t *testing.T) {
	r := newRig(t)
	s, c := r.server(r.engine(), t.Name(), 1), r.client(r.engine(), t.Name(), 1)
	r.want("start", s.Start(), nil)
	for range 20 {
		r.dial(t.Name())
	}
	half := r.dial(t.Name()) // greets, and never says that it is ready
	r.want("greet", half.Send(honest.encode()), nil)
	c.begin()
	r.until("connected", func() bool { return c.State() == core.Running && len(s.events) == 1 })
	c.shut()
	start := time.Now()
	s.shut()
	if took := time.Since(start); took > answerTime/2 {
		t.Errorf("the stop took %v", took)
	}
}

func TestAClientThatSaysNothingIsTurnedOut(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 1)
	s.control.answerTime = 10 * time.Millisecond
	r.want("start", s.Start(), nil)
	r.dial(t.Name())
	r.until("turned out", func() bool { return s.Rejected() == 1 })
	s.shut()
}

// A falseServer answers the first greeting of one client, in its way.
func (r *rig) falseServer(answer func(conn *ipc.Conn)) (wait func()) {
	r.Helper()
	l, err := ipc.Listen(meetingPoint(r.host.Info().PCI(), r.Name()))
	r.want("listen", err, nil)
	over := make(chan struct{})
	go func() {
		defer close(over)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		var b [64]byte
		_, _, _ = conn.Recv(b[:])
		answer(conn)
		_, _, _ = conn.Recv(b[:]) // until the client has gone
	}()
	return func() { _ = l.Close(); <-over }
}

// pages makes shared memory, sealed or not.
func (r *rig) pages(n int, sealed, readOnly bool) *sys.Pages {
	r.Helper()
	p, err := sys.AllocPages(n, sys.PagesOptions{Shareable: true})
	r.want("pages", err, nil)
	if sealed {
		r.want("seal", p.Seal(readOnly), nil)
	}
	r.Cleanup(func() { _ = p.Free() })
	r.held++
	return p
}

func TestAServerThatLiesIsNotBelieved(t *testing.T) {
	size := newLayout(100, 10, defaultRecvQueue).size()
	for what, answer := range map[string]func(r *rig, conn *ipc.Conn, bell int){
		"nothing, and leaves": func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Close() },
		"garbage":             func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Send([]byte("220 hello")) },
		"full":                func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Send(lies["refused"]) },
		"no descriptors":      func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Send(honest.encode()) },
		"one descriptor":      func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Send(honest.encode(), bell) },
		"two doorbells":       func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Send(honest.encode(), bell, bell) },
		"memory for a bell": func(r *rig, conn *ipc.Conn, bell int) {
			fd := r.pages(size, true, false).FD()
			_ = conn.Send(honest.encode(), fd, fd)
		},
		"memory not sealed": func(r *rig, conn *ipc.Conn, bell int) {
			_ = conn.Send(honest.encode(), r.pages(size, false, false).FD(), bell)
		},
		"memory not writable": func(r *rig, conn *ipc.Conn, bell int) {
			_ = conn.Send(honest.encode(), r.pages(size, true, true).FD(), bell)
		},
		"too little memory": func(r *rig, conn *ipc.Conn, bell int) {
			_ = conn.Send(honest.encode(), r.pages(4096, true, false).FD(), bell)
		},
		"longer than asked": func(r *rig, conn *ipc.Conn, bell int) {
			n := newLayout(8000, 10, defaultRecvQueue).size() // all else is right
			_ = conn.Send(hello{version: helloVersion, message: 8000, queue: 10}.encode(), r.pages(n, true, false).FD(), bell)
		},
		"a version to come":    func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Send(lies["another version"], bell, bell) },
		"a file for a segment": func(r *rig, conn *ipc.Conn, bell int) { _ = conn.Send(honest.encode(), 0, bell) },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			before := descriptors(t)
			mine, theirs, err := sys.NewDoorbell()
			r.want("doorbell", err, nil)
			wait := r.falseServer(func(conn *ipc.Conn) { answer(r, conn, theirs.FD()) })
			c := r.client(r.engine(), t.Name(), 1)
			c.begin()
			r.until("idle", func() bool { return c.State() == core.Idle })
			why, ok := map[string]core.Status{"full": core.ErrFull, "a version to come": core.ErrUnsupportedVersion}[what]
			if !ok {
				why = core.ErrConnectionAborted
			}
			if got := core.StatusOf(c.Err()); got != why || slices.Contains(c.states, core.Running) {
				t.Errorf("got %v after the states %v, want %v and never %v", c.Err(), c.states, why, core.Running)
			}
			r.want("destroy", c.Destroy(), nil)
			wait()
			_, _ = mine.Close(), theirs.Close()
			r.same(before + r.held)
		})
	}
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	r := newRig(t)
	wait := r.falseServer(func(*ipc.Conn) {})
	c := r.client(r.engine(), t.Name(), 1)
	c.control.answerTime = 10 * time.Millisecond
	c.begin()
	r.until("idle", func() bool { return c.State() == core.Idle })
	r.want("why", c.Err(), core.ErrTimeOut)
	r.want("destroy", c.Destroy(), nil)
	wait()
}
