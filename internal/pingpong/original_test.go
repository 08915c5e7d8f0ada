package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// An original does what ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong
// do, in their order, and says the same on TCP: each text in one write, each
// read with one call. It shares no code with this package.
type original struct {
	service   verbs.QPType
	size, mtu int
	iters     int
	chk       bool // its -c
	psn       uint32

	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
	ah  *verbs.AH
	grh int
	buf []byte
	far struct{ lid, qpn, psn uint32 }
}

// The places of the tests of this package.
var (
	ours   = netip.MustParseAddr("127.0.0.61")
	theirs = netip.MustParseAddr("127.0.0.62")
)

func newOriginal(t *testing.T, test Test) *original {
	o := &original{service: test.Type, size: test.Size, mtu: test.MTU, iters: test.Iters, psn: 0xfffff0}
	x := work.NewInline()
	t.Cleanup(x.Close)
	dev, err := verbs.Open(verbs.Config{Addr: theirs, Executor: x})
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("no device on %v: %v", theirs, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.service == verbs.UD {
		o.grh = 40
	}
	o.dev, o.pd, o.buf = dev, dev.AllocPD(), make([]byte, o.grh+o.size)
	for i := range o.buf {
		o.buf[i] = 0x7b
	}
	good := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	o.mr, err = o.pd.RegMR(o.buf, verbs.AccessLocalWrite)
	good(err)
	o.cq, err = dev.CreateCQ(501, nil, nil)
	good(err)
	o.qp, err = o.pd.CreateQP(verbs.QPInit{Type: o.service, SendCQ: o.cq, RecvCQ: o.cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 500, MaxSendSGE: 1, MaxRecvSGE: 1}})
	good(err)
	mask := verbs.MaskInit
	if o.service == verbs.UD {
		mask = verbs.MaskInitUD
	}
	good(o.qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, QKey: 0x11111111}, mask))
	for range 500 {
		good(o.postRecv())
	}
	return o
}

func (o *original) postRecv() error {
	_, err := o.qp.PostRecv(verbs.RecvWR{ID: 1, SG: []verbs.SGE{o.mr.SGE(0, o.grh+o.size)}})
	return err
}

func (o *original) postSend() error {
	wr := verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.Signaled, SG: []verbs.SGE{o.mr.SGE(o.grh, o.size)}}
	if o.service == verbs.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = o.ah, o.far.qpn, 0x11111111
	}
	_, err := o.qp.PostSend(wr)
	return err
}

// say writes where this end is.
func (o *original) say(conn net.Conn) error {
	_, err := conn.Write(fmt.Appendf(nil, "%04x:%06x:%06x:00000000000000000000ffff7f00003e\x00", 0, o.qp.Num(), o.psn))
	return err
}

// hear reads where the other end is, with one call, and gets ready for it.
func (o *original) hear(conn net.Conn) error {
	msg := make([]byte, 52)
	if n, err := conn.Read(msg); n != 52 {
		return fmt.Errorf("%d/52: Couldn't read remote address: %w", n, err)
	}
	var gid string
	text, _, _ := strings.Cut(string(msg), "\x00")
	if n, err := fmt.Sscanf(strings.ReplaceAll(text, ":", " "), "%x %x %x %s", &o.far.lid, &o.far.qpn, &o.far.psn, &gid); n != 4 {
		return err
	}
	if gid != "00000000000000000000ffff7f00003d" {
		return fmt.Errorf("GID %s", gid)
	}
	return nil
}

func (o *original) connect() (err error) {
	mtu, _ := roce.MTUOf(o.mtu)
	av := verbs.AddressVector{DGID: verbs.GIDOf(ours), HopLimit: 1}
	rtr := verbs.QPAttr{State: verbs.StateRTR, PathMTU: mtu, DestQPN: o.far.qpn, RQPSN: roce.PSN(o.far.psn),
		MaxDestRdAtomic: 1, MinRNRTimer: 12, AV: av}
	rts := verbs.QPAttr{State: verbs.StateRTS, Timeout: patient, RetryCnt: 7, RNRRetry: 7, SQPSN: roce.PSN(o.psn), MaxQPRdAtomic: 1}
	masks := map[verbs.QPType][2]verbs.AttrMask{
		verbs.RC: {verbs.MaskRTR, verbs.MaskRTS}, verbs.UC: {verbs.MaskRTRUC, verbs.MaskRTSUC}, verbs.UD: {verbs.MaskRTRUD, verbs.MaskRTSUD},
	}[o.service]
	if o.service == verbs.UD {
		if o.ah, err = o.pd.CreateAH(verbs.AHTo(ours)); err != nil {
			return err
		}
	}
	return errors.Join(o.qp.Modify(rtr, masks[0]), o.qp.Modify(rts, masks[1]))
}

// client is the original with a host on its command line.
func (o *original) client(conn net.Conn) error {
	if err := errors.Join(o.say(conn), o.hear(conn)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("done\x00")); err != nil {
		return err
	}
	_ = conn.Close()
	if o.chk {
		for i := 0; i < o.size; i += 4096 {
			o.buf[o.grh+i] = 0
		}
	}
	if err := errors.Join(o.connect(), o.postSend()); err != nil {
		return err
	}
	return o.loop(3)
}

// server is the original without one.
func (o *original) server(conn net.Conn) error {
	if err := errors.Join(o.hear(conn), o.connect(), o.say(conn)); err != nil {
		return err
	}
	msg := make([]byte, 52)
	if n, err := conn.Read(msg); string(msg[:n]) != "done\x00" {
		return fmt.Errorf("Couldn't send/recv local address: %q, %w", msg[:n], err)
	}
	_ = conn.Close()
	if err := o.loop(1); err != nil || !o.chk {
		return err
	}
	for i := 0; i < o.size; i += 4096 {
		if o.buf[o.grh+i] != 0 {
			return fmt.Errorf("invalid data in page %d", i/4096)
		}
	}
	return nil
}

func (o *original) loop(pending uint64) error {
	var wc [2]verbs.WC
	give := time.Now().Add(20 * time.Second)
	for scnt, rcnt := 0, 0; scnt < o.iters || rcnt < o.iters; {
		n := o.cq.Poll(wc[:])
		if n == 0 {
			if time.Now().After(give) {
				return fmt.Errorf("stuck after %d of %d", rcnt, o.iters)
			}
			runtime.Gosched()
		}
		for _, c := range wc[:n] {
			if c.Status != verbs.WCSuccess {
				return fmt.Errorf("Failed status %v for wr_id %d", c.Status, c.ID)
			}
			if c.ID == 2 {
				scnt++
			} else {
				rcnt++
				if err := o.postRecv(); err != nil {
					return err
				}
			}
			if pending &^= c.ID; pending == 0 && scnt < o.iters {
				if err := o.postSend(); err != nil {
					return err
				}
				pending = 3
			}
		}
	}
	return nil
}

// everyGame calls play for the games that are worth it.
func everyGame(t *testing.T, play func(t *testing.T, test Test, chk bool)) {
	for _, service := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for _, g := range []struct{ size, mtu int }{{1, 1024}, {1024, 1024}, {4000, 4096}, {9001, 1024}, {9001, 4096}} {
			if service == verbs.UD && g.size > 4096 {
				continue
			}
			for _, both := range []bool{false, true} {
				test := NewTest(service)
				test.Size, test.MTU, test.Events, test.Check = g.size, g.mtu, both, true
				test.Iters, test.Depth, test.Addr, test.Times = 40, 7, ours, true
				t.Run(fmt.Sprintf("%s/size=%d/mtu=%d/events,chk=%v", name(service), g.size, g.mtu, both), func(t *testing.T) {
					play(t, test, both)
				})
			}
		}
	}
}

// tcp returns a listener on loopback.
func tcp(t *testing.T) net.Listener {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func verify(t *testing.T, r Result, err error, test Test) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if r.Iters != 40 || r.Bytes != 2*40*int64(test.Size) || !r.Validated || r.Checked != 40 || r.Seconds <= 0 || r.Times == nil {
		t.Errorf("got %+v", r)
	}
}

func TestClientPlaysWithAnOriginalServer(t *testing.T) {
	everyGame(t, func(t *testing.T, test Test, chk bool) {
		o, l := newOriginal(t, test), tcp(t)
		o.chk = chk
		ended := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				err = o.server(conn)
			}
			ended <- err
		}()
		r, err := Client(t.Context(), test, l.Addr().String(), Told{})
		if failed := <-ended; failed != nil {
			t.Errorf("the original: %v", failed)
		}
		verify(t, r, err, test)
	})
}

func TestServerPlaysWithAnOriginalClient(t *testing.T) {
	everyGame(t, func(t *testing.T, test Test, chk bool) {
		o, l := newOriginal(t, test), tcp(t)
		o.chk = chk
		ended := make(chan error, 1)
		go func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				err = o.client(conn)
			}
			ended <- err
		}()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var local, remote Dest
		s, err := NewServer(test, Told{func(d Dest) { local = d }, func(d Dest) { remote = d }})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Serve(t.Context(), conn)
		if failed := <-ended; failed != nil {
			t.Errorf("the original: %v", failed)
		}
		verify(t, r, err, test)
		if local.GID != verbs.GIDOf(ours) || remote != (Dest{QPN: o.qp.Num(), PSN: 0xfffff0, GID: verbs.GIDOf(theirs)}) {
			t.Errorf("the server was told %v and %v", local, remote)
		}
	})
}

// hostile is a peer over TCP that says something and then closes, or waits.
func hostile(t *testing.T, says string, closes bool) (at string) {
	l := tcp(t)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(says))
		if closes {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		<-t.Context().Done()
		_ = conn.Close()
	}()
	return l.Addr().String()
}

func TestWhatAPeerDoesWrongIsSaidInOneSentence(t *testing.T) {
	dest := func(gid string) string {
		return string(Dest{QPN: 0x12, GID: verbs.GIDOf(netip.MustParseAddr(gid))}.Append(nil))
	}
	for _, c := range []struct {
		name, says string
		closes     bool
		kind       error
		want       string
	}{
		{"web server", "HTTP/1.1 400 Bad Request\r\n\r\n", true, rendezvous.ErrPeer, "is no program of this kind"},
		{"endless line", strings.Repeat("0", 1<<20), false, rendezvous.ErrPeer, "byte 4 is wrong"},
		{"says nothing", "", false, rendezvous.ErrPeer, "has said nothing on TCP for 200ms"},
		{"half an address", "0000:0000", false, rendezvous.ErrPeer, "has said nothing on TCP for 200ms"},
		{"closes", "", true, rendezvous.ErrPeer, "closed the TCP connection before it said where it is"},
		{"without -g", dest("::"), false, rendezvous.ErrPeer, "start it with -g"},
		{"group", dest("ff0e::1"), false, rendezvous.ErrPeer, "that of a group"},
		{"our own address", dest(ours.String()), false, rendezvous.ErrPeer, "that of this end"},
		{"IPv6", dest("2001:db8::1"), false, rendezvous.ErrPeer, "different IP versions"},
		{"silent", dest(theirs.String()), false, rendezvous.ErrLost, "not one packet has come to UDP port 4791 of 127.0.0.61"},
	} {
		t.Run(c.name, func(t *testing.T) {
			test := NewTest(verbs.RC)
			test.Addr, test.Limit, test.AckTimeout = ours, 200*time.Millisecond, 8
			_, err := Client(t.Context(), test, hostile(t, c.says, c.closes), Told{})
			if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EADDRINUSE) {
				t.Skip(err)
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestSilenceOfEachServiceEnds(t *testing.T) {
	for _, service := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for _, events := range []bool{false, true} {
			test := NewTest(service)
			test.Addr, test.Limit, test.Events, test.AckTimeout = ours, 100*time.Millisecond, events, 31
			_, err := Client(t.Context(), test, hostile(t, string(Dest{QPN: 1, GID: verbs.GIDOf(theirs)}.Append(nil)), false), Told{})
			if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EADDRINUSE) {
				t.Skip(err)
			}
			if !errors.Is(err, rendezvous.ErrLost) || !strings.Contains(err.Error(), "after 0 of 1000 messages") ||
				!strings.Contains(err.Error(), "; counted here: sent_pkts ") || !strings.HasSuffix(err.Error(), ", rcvd_pkts 0") {
				t.Errorf("%s, events %v: got %v", name(service), events, err)
			}
		}
	}
}

func TestAnInterruptedClientEnds(t *testing.T) {
	for _, says := range []string{"", string(Dest{QPN: 1, GID: verbs.GIDOf(theirs)}.Append(nil))} {
		for _, events := range []bool{false, true} {
			at := hostile(t, says, false)
			ctx, cancel := context.WithCancel(t.Context())
			test := NewTest(verbs.UC)
			test.Addr, test.Events = ours, events
			told := Told{Remote: func(Dest) { cancel() }}
			if says == "" {
				told = Told{Local: func(Dest) { cancel() }}
			}
			_, err := Client(ctx, test, at, told)
			cancel()
			if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EADDRINUSE) {
				t.Skip(err)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("said %q, events %v: got %v", says, events, err)
			}
		}
	}
}
