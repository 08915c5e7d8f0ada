package rping

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

func TestBothEndsVerifyEverySize(t *testing.T) {
	c := quick()
	far, near := open(t, c, ours), open(t, c, theirs)
	for _, size := range []int{16, 17, 64, 1000, 4096, 4097, 65535, 65536} {
		s := serve(t, c, far)
		c.Size, c.Count = size, 70 // more pings than there are letters
		r, err := Client(t.Context(), c, near, s.Addr())
		if err != nil || r.Count != 70 || r.Size != size || !r.Verified {
			t.Errorf("size %d: the client has %+v, %v", size, r, err)
		}
		if tally, err := s.end(err != nil); err != nil || tally.Count != 70 || tally.Size != size || !tally.Verified || tally.Clients != 1 || tally.Failed != 0 {
			t.Errorf("size %d: the server has %+v, %v", size, tally, err)
		}
	}
}

func TestADevicePingsItself(t *testing.T) {
	for _, at := range []string{"127.0.0.81", "::1"} {
		t.Run(at, func(t *testing.T) {
			c := quick()
			d := open(t, c, netip.MustParseAddr(at))
			s := serve(t, c, d)
			c.Count = 20
			if r, err := Client(t.Context(), c, d, s.Addr()); err != nil || r.Count != 20 {
				t.Errorf("the client has %+v, %v", r, err)
			}
			if tally, err := s.end(false); err != nil || tally.Count != 20 {
				t.Errorf("the server has %+v, %v", tally, err)
			}
		})
	}
}

func TestManyClientsOneAfterAnotherAndAtTheSameTime(t *testing.T) {
	c := quick()
	c.Many = true
	ended := make(chan error, 16)
	c.Ended = func(_ netip.AddrPort, _ Result, err error) { ended <- err }
	far, near := open(t, c, ours), open(t, c, theirs)
	s := serve(t, c, far)
	for n := range 5 {
		c.Count = n + 1
		if r, err := Client(t.Context(), c, near, s.Addr()); err != nil || r.Count != n+1 {
			t.Fatalf("client %d has %+v, %v", n, r, err)
		}
	}
	const clients, pings = 8, 40
	var wg sync.WaitGroup
	for n := range clients {
		mine := c
		mine.Size, mine.Count = 100*(n+1), pings
		wg.Go(func() {
			if r, err := Client(t.Context(), mine, near, s.Addr()); err != nil || r.Count != pings {
				t.Errorf("client %d of those together has %+v, %v", n, r, err)
			}
		})
	}
	wg.Wait()
	for range 5 + clients {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	tally, err := s.end(true)
	want := Tally{Result{15 + clients*pings, 100 * clients, true, tally.Seconds}, 5 + clients, 0}
	if tally != want || !errors.Is(err, context.Canceled) {
		t.Errorf("the server has %+v, %v, want %+v", tally, err, want)
	}
}

func TestASecondClientIsRefusedWithoutMany(t *testing.T) {
	c := quick()
	far, near := open(t, c, ours), open(t, c, theirs)
	s := serve(t, c, far)
	ctx, stop := context.WithCancel(t.Context())
	first, going := make(chan error, 1), make(chan struct{})
	endless := c
	var once sync.Once
	endless.Ping = func([]byte) { once.Do(func() { close(going) }) }
	go func() {
		_, err := Client(ctx, endless, near, s.Addr())
		first <- err
	}()
	<-going
	if _, err := Client(t.Context(), c, near, s.Addr()); !errors.Is(err, rendezvous.ErrPeer) || !strings.Contains(fmt.Sprint(err), "start the server with -P") {
		t.Errorf("the second client: %v", err)
	}
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first client: %v", err)
	}
	s.end(false)
}

// A client that a signal ends leaves in the middle; the server says so and goes
// on.
func TestAClientThatLeavesInTheMiddle(t *testing.T) {
	c := quick()
	c.Many = true
	ended := make(chan error, 4)
	c.Ended = func(_ netip.AddrPort, _ Result, err error) { ended <- err }
	far, near := open(t, c, ours), open(t, c, theirs)
	s := serve(t, c, far)
	half(t, c, near, s.Addr(), func(s *session) { _ = s.leave() })
	if err := <-ended; !errors.Is(err, rendezvous.ErrPeer) || !strings.Contains(err.Error(), "has left in the middle of ping 0") {
		t.Errorf("the server says %v", err)
	}
	c.Count = 3
	if r, err := Client(t.Context(), c, near, s.Addr()); err != nil || r.Count != 3 {
		t.Errorf("the next client has %+v, %v", r, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if tally, _ := s.end(true); tally.Clients != 2 || tally.Failed != 1 || !tally.Verified {
		t.Errorf("the server has %+v", tally)
	}
}

// One that says nothing any more is given up.
func TestAClientThatFallsSilent(t *testing.T) {
	c := quick()
	c.Limit = 300 * time.Millisecond
	far, near := open(t, c, ours), open(t, c, theirs)
	s := serve(t, c, far)
	patient := c
	patient.Limit = 20 * time.Second
	half(t, patient, near, s.Addr(), func(*session) { <-s.ended })
	if _, err := s.end(false); !errors.Is(err, rendezvous.ErrLost) || !strings.Contains(err.Error(), "has said nothing for 300ms") {
		t.Errorf("the server says %v", err)
	}
}

// half connects, advertises a source, waits for the go-ahead, and then does
// something else.
func half(t *testing.T, c Test, d *verbs.Device, server netip.AddrPort, then func(*session)) {
	t.Helper()
	odd(t, c, d, server, func(s *session) error {
		fill(s.text(c.Size), 0)
		return s.send(advert{s.mr.Addr() + textAt, s.mr.RKey(), uint32(c.Size)})
	}, func(s *session) {
		if err := s.wait(sent|received, "the go-ahead"); err != nil {
			t.Error(err)
		}
		then(s)
	})
}

// odd connects and does what no client does.
func odd(t *testing.T, c Test, d *verbs.Device, server netip.AddrPort, first func(*session) error, then func(*session)) {
	t.Helper()
	k, err := newDesk(d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = k.run(ctx, nil)
	}()
	defer func() {
		stop()
		<-over
		if err := k.ch.Close(); err != nil {
			t.Error(err)
		}
	}()
	id, err := k.ch.NewID(cm.TCP, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(ctx, &c, k, id)
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.connect(server); err != nil {
		t.Error(err)
		return
	}
	if err := first(s); err != nil {
		t.Error(err)
		return
	}
	then(s)
}

// What a client does wrong, the server says; and it does not hang.
func TestOddClients(t *testing.T) {
	c := quick()
	far, near := open(t, c, ours), open(t, c, theirs)
	gone := func(s *session) { _ = s.wait(received, "nothing") }
	for _, o := range []struct {
		what, want string
		first      func(*session) error
	}{
		{"no bytes", "a text of 0 bytes", func(s *session) error { return s.send(advert{}) }},
		{"too many", "a text of 65537 bytes", func(s *session) error { return s.send(advert{0, 0, MaxSize + 1}) }},
		{"a wrong key", "refuses access to the 64 bytes at 0x", func(s *session) error {
			return s.send(advert{s.mr.Addr() + textAt, s.mr.RKey() + 1, 64})
		}},
		{"a wrong text", "byte 0 of ping 0 is 0x00", func(s *session) error {
			return s.send(advert{s.mr.Addr() + textAt, s.mr.RKey(), 64})
		}},
		{"a short message", "a message of 8 bytes has come", func(s *session) error {
			return s.post("post", verbs.SendWR{ID: sent, Opcode: verbs.WRSend, Flags: verbs.Signaled | verbs.Inline, Data: make([]byte, 8)})
		}},
		{"a long message", "is longer than those of rping", func(s *session) error {
			return s.post("post", verbs.SendWR{ID: sent, Opcode: verbs.WRSend, Flags: verbs.Signaled, SG: []verbs.SGE{s.mr.SGE(0, textAt+64)}})
		}},
	} {
		s := serve(t, c, far)
		odd(t, c, near, s.Addr(), o.first, gone)
		if _, err := s.end(false); !errors.Is(err, rendezvous.ErrPeer) && !errors.Is(err, rendezvous.ErrContents) || !strings.Contains(fmt.Sprint(err), o.want) {
			t.Errorf("%s: the server says %v", o.what, err)
		}
	}
}

// A server that sends back something else is found out.
func TestAClientComparesWhatComesBack(t *testing.T) {
	c := quick()
	far, near := open(t, c, ours), open(t, c, theirs)
	spoils := c
	spoils.Ping = func(text []byte) { text[3] = '!' } // it lies where the WRITE takes it from
	s := serve(t, spoils, far)
	c.Count = 5
	r, err := Client(t.Context(), c, near, s.Addr())
	if !errors.Is(err, rendezvous.ErrContents) || !strings.Contains(fmt.Sprint(err), "byte 3 of ping 0 is 0x21, and 0x61 was sent") || r.Verified {
		t.Errorf("the client has %+v, %v", r, err)
	}
	s.end(false)
}

func TestWithoutAServer(t *testing.T) {
	c := quick()
	c.Count = 1
	far, near := open(t, c, ours), open(t, c, theirs)
	hasty := c
	hasty.Limit = 200 * time.Millisecond
	if _, err := Client(t.Context(), hasty, near, netip.AddrPortFrom(ours, 9)); !errors.Is(err, rendezvous.ErrLost) && !errors.Is(err, rendezvous.ErrPeer) {
		t.Errorf("a device without a connection manager: %v", err)
	}
	s := serve(t, c, far)
	nowhere := netip.AddrPortFrom(ours, s.Addr().Port()+1)
	if _, err := Client(t.Context(), c, near, nowhere); !errors.Is(err, rendezvous.ErrPeer) || !strings.Contains(fmt.Sprint(err), "nobody listens on port") {
		t.Errorf("a wrong port: %v", err)
	}
	if n := asked(s.desk.ch); n < 2 || n > 20 {
		t.Errorf("the client asked %d times within %v, want 10: less and less often", n, rendezvous.Patience)
	}
	if _, err := Client(t.Context(), hasty, near, netip.MustParseAddrPort("127.0.0.83:7174")); !errors.Is(err, rendezvous.ErrLost) || !strings.Contains(fmt.Sprint(err), "has not answered for 200ms") {
		t.Errorf("a wrong address: %v", err)
	}
	s.end(true)
}

// asked returns how often a client has asked for a connection.
func asked(ch *cm.Channel) (n uint64) {
	for _, c := range ch.Counters() {
		if c.Name == "received_REQ" {
			n = c.Value
		}
	}
	return n
}

// A client says once that it connects, and asks again and again. Then the server
// comes.
func TestAServerMayComeALittleLater(t *testing.T) {
	c := quick()
	c.Count = 2
	far, near := open(t, c, ours), open(t, c, theirs)
	manager, err := cm.Open(far) // answers that nobody listens
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	c.Step = func(what string) { steps = append(steps, what) }
	ended := make(chan error, 1)
	nowhere := netip.AddrPortFrom(ours, Port)
	go func() {
		r, err := Client(t.Context(), c, near, nowhere)
		if err == nil && r.Count != 2 {
			err = fmt.Errorf("it has %+v", r)
		}
		ended <- err
	}()
	for end := time.Now().Add(20 * time.Second); asked(manager) < 3; notify.Nap(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the client has asked %d times", asked(manager))
		}
	}
	w, err := Listen(quick(), far, Port)
	if err != nil {
		t.Fatal(err)
	}
	_, serving := w.Serve(t.Context())
	for _, err := range []error{<-ended, serving, w.Close(), manager.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	connects := 0
	for _, s := range steps {
		if strings.HasPrefix(s, "connect to ") {
			connects++
		}
	}
	if connects != 1 {
		t.Errorf("the client said %d times that it connects, want once: %q", connects, steps)
	}
}

func TestAnEndWithASmallerMTUSaysSo(t *testing.T) {
	c := quick()
	c.Count = 1
	far, err := verbs.Open(verbs.Config{Addr: ours, MTU: 1024})
	if err != nil {
		t.Skipf("no device on %v: %v", ours, err)
	}
	t.Cleanup(func() {
		if err := far.Close(); err != nil {
			t.Error(err)
		}
	})
	near := open(t, c, theirs)
	s := serve(t, c, far)
	want := fmt.Sprintf("the network of %v carries smaller packets than that of %v, where the path MTU is 4096", ours, theirs)
	if _, err := Client(t.Context(), c, near, s.Addr()); !errors.Is(err, rendezvous.ErrPeer) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("the client says %v, want %s", err, want)
	}
	s.end(true)
}

func TestBadWeather(t *testing.T) {
	c := quick()
	c.Faults = link.Faults{Loss: 0.01, Dup: 0.01, Reorder: 0.01, Seed: 5}
	c.Limit = 20 * time.Second
	far, near := open(t, c, ours), open(t, c, theirs)
	s := serve(t, c, far)
	c.Count, c.Size = 30, 20000
	if r, err := Client(t.Context(), c, near, s.Addr()); err != nil || r.Count != 30 || !r.Verified {
		t.Errorf("the client has %+v, %v", r, err)
	}
	if tally, err := s.end(t.Failed()); err != nil || tally.Count != 30 {
		t.Errorf("the server has %+v, %v", tally, err)
	}
}
