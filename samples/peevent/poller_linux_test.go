package peevent

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Go's scheduler interrupts threads with signals, and epoll_wait is never
// restarted after one. Without its loop, wait ends here almost at once.
func TestSignalsDoNotEndTheWait(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p, err := newPoller(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()

	thread, over := make(chan int), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		over <- p.wait()
	}()
	tid := <-thread
	for range 1000 {
		if err := unix.Tgkill(os.Getpid(), tid, unix.SIGURG); err != nil {
			t.Fatalf("the thread that waits is gone: %v", err)
		}
		runtime.Gosched()
	}
	select {
	case err := <-over:
		t.Fatalf("the wait ended before there was anything: %v", err)
	default:
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Errorf("wait: %v", err)
	}
}

func TestPollerRefusesWhatCannotBePolled(t *testing.T) {
	if _, err := newPoller(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("descriptor -1: got %v, want %v", err, unix.EBADF)
	}
}
