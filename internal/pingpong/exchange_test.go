package pingpong

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// give hands b to x in pieces of n bytes, as TCP may cut it.
func give(x *Exchange, b []byte, n int) (taken int, err error) {
	for taken < len(b) && err == nil {
		var some int
		some, err = x.In(b[taken:min(taken+n, len(b))])
		if taken += some; some == 0 {
			break
		}
	}
	return taken, err
}

func TestExchangeHasTheOrderOfTheOriginals(t *testing.T) {
	for _, piece := range []int{1, 7, DestLen, 4096} {
		here, there := Dest{QPN: 0xabcdef, PSN: 1}, kernel()
		c, s := NewClientExchange(here), NewServerExchange()
		if out := s.Out(); out != nil {
			t.Errorf("the server begins with %q, want the client to begin", out)
		}
		if n, err := give(s, c.Out(), piece); n != DestLen || err != nil {
			t.Fatalf("the server took %d bytes, %v", n, err)
		}
		if d, known := s.Peer(); d != here || !known {
			t.Errorf("got %v, %v, want %v", d, known, here)
		}
		if out, want := s.Out(), s.Want(); out != nil || want != 0 {
			t.Errorf("the server sends %q and wants %d bytes before it has an answer", out, want)
		}
		s.Answer(there)
		s.Answer(here) // too late
		if _, known := c.Peer(); known || c.Over() || s.Over() {
			t.Error("the exchange is over too soon")
		}
		if n, err := give(c, s.Out(), piece); n != DestLen || err != nil {
			t.Fatalf("the client took %d bytes, %v", n, err)
		}
		if d, known := c.Peer(); d != there || !known || !c.Over() {
			t.Errorf("got %v, %v, want %v", d, known, there)
		}
		done := c.Out()
		if string(done) != "done\x00" {
			t.Errorf("the client ends with %q", done)
		}
		if n, err := give(s, append(done, "more"...), piece); n != 5 || err != nil || !s.Over() {
			t.Errorf("the server took %d bytes, %v", n, err)
		}
		if c.Out() != nil || s.Out() != nil || c.Want()+s.Want() != 0 {
			t.Error("there is more to say")
		}
	}
}

func TestOtherLanguagesAreFoundOutAtOnce(t *testing.T) {
	for _, says := range []string{"GET / HTTP/1.1\r\n", "\x16\x03\x01", "{\"name\":\"gantry-perf\"", "SSH-2.0", "\n", "0000:00001x", "0000:000012:b0c9f4\x00"} {
		for name, x := range map[string]*Exchange{"client": NewClientExchange(Dest{}), "server": NewServerExchange()} {
			if _, err := x.In([]byte(says)); !errors.Is(err, rendezvous.ErrPeer) || !strings.Contains(err.Error(), "is wrong") {
				t.Errorf("%s, %q: got %v, want it refused", name, says, err)
			}
		}
	}
	s := NewServerExchange()
	_, _ = s.In([]byte(kernelDest))
	s.Answer(Dest{})
	if _, err := s.In([]byte("dune")); !errors.Is(err, rendezvous.ErrPeer) {
		t.Errorf("got %v, want it refused", err)
	}
}

func TestTheEndOfTheConnectionIsExplained(t *testing.T) {
	server := func(says ...string) *Exchange {
		x := NewServerExchange()
		for _, s := range says {
			_, _ = x.In([]byte(s))
			x.Answer(Dest{})
		}
		return x
	}
	over := NewClientExchange(Dest{})
	_, _ = over.In([]byte(kernelDest))
	for _, c := range []struct {
		x    *Exchange
		want string
	}{
		{NewClientExchange(Dest{}), "before it said where it is"},
		{server("0000:0000"), "after 9 of 52 bytes"},
		{server(kernelDest), "before it said that it is done"},
		{server(kernelDest, "don"), "before it said that it is done"},
		{server(kernelDest, "done"), ""}, // some leave out the zero byte
		{server(kernelDest, "done\x00"), ""},
		{over, ""},
	} {
		err := c.x.Closed()
		if c.want == "" {
			if err != nil || !c.x.Over() {
				t.Errorf("got %v, and over: %v, want a good end", err, c.x.Over())
			}
		} else if !errors.Is(err, rendezvous.ErrPeer) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// FuzzExchange gives both kinds of ends what a hostile peer may say. However it
// is cut, the outcome is the same, and no more is taken than belongs to the
// exchange.
func FuzzExchange(f *testing.F) {
	f.Add([]byte(kernelDest), uint8(1))
	f.Add([]byte(kernelDest+"done\x00"), uint8(3))
	f.Add([]byte(kernelDest+kernelDest), uint8(60))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint8(5))
	f.Add(bytes.Repeat([]byte("0"), 10000), uint8(200))
	f.Fuzz(func(t *testing.T, says []byte, piece uint8) {
		for _, server := range []bool{false, true} {
			whole, cut := listen(t, server, says, len(says)+1), listen(t, server, says, int(piece)+1)
			if whole != cut {
				t.Errorf("%q: got %v in pieces of %d, and %v at once", says, cut, piece+1, whole)
			}
		}
	})
}

// An outcome is what came of an exchange.
type outcome struct {
	taken       int
	peer        Dest
	known, over bool
	good, ended bool
}

func listen(t *testing.T, server bool, says []byte, piece int) (o outcome) {
	x := NewClientExchange(kernel())
	if server {
		x = NewServerExchange()
	}
	var err error
	for err == nil && x.Want() > 0 && o.taken < len(says) {
		want := x.Want()
		var n int
		n, err = x.In(says[o.taken:min(o.taken+piece, len(says))])
		if n <= 0 || n > want {
			t.Fatalf("took %d bytes and wanted %d", n, want)
		}
		if o.taken += n; err == nil {
			if _, known := x.Peer(); known {
				x.Answer(kernel())
			}
		}
	}
	if err != nil && !errors.Is(err, rendezvous.ErrPeer) {
		t.Fatalf("got %v", err)
	}
	if o.good = err == nil; !o.good {
		o.taken = 0 // how much of a wrong piece is taken does not matter
		return o
	}
	o.ended = x.Closed() == nil
	o.peer, o.known = x.Peer()
	o.over = x.Over()
	return o
}
