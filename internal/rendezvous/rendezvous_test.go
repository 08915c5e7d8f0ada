package rendezvous

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAnErrorHasAKindThatItDoesNotSay(t *testing.T) {
	err := Errorf(ErrLost, "nothing came: %w", io.EOF)
	if !errors.Is(err, ErrLost) || !errors.Is(err, io.EOF) || errors.Is(err, ErrPeer) {
		t.Errorf("got %v, want one that is lost and an end of file", err)
	}
	if got := err.Error(); got != "nothing came: EOF" {
		t.Errorf("got the sentence %q", got)
	}
}

// port is one of 127.0.0.1 that was free a moment ago.
func port(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestAServerMayComeLater(t *testing.T) {
	at := port(t)
	listening := make(chan error, 1)
	var l net.Listener
	time.AfterFunc(50*time.Millisecond, func() {
		var err error
		l, err = net.Listen("tcp", at)
		listening <- err
	})
	conn, err := Dial(t.Context(), at, "")
	if err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	if err := <-listening; err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestNoServerAtAllIsSaidWithAdvice(t *testing.T) {
	start := time.Now()
	_, err := Dial(t.Context(), port(t), "start it")
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.HasSuffix(err.Error(), ": start it") {
		t.Errorf("got error %v, want a refusal and the advice", err)
	}
	if took := time.Since(start); took < Patience {
		t.Errorf("gave up after %v, want %v", took, Patience)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, err := Dial(ctx, port(t), ""); !errors.Is(err, why) {
		t.Errorf("got error %v, want the cause of the context", err)
	}
}
