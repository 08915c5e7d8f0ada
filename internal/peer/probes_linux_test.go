package peer_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/internal/peer"
	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/roce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place returns an address of loopback that nobody else has: neither another
// test of this process nor another process of this test.
func place(n int) netip.Addr {
	if os.Getenv(inNamespace) != "" {
		return place6(n)
	}
	return netip.AddrFrom4([4]byte{127, byte(64 + os.Getpid()&63), byte(n), 1})
}

// places is how many scripts of TestProbes are played at a time.
const places = 8

// patience is how long a statement waits: a loaded machine can stand still for
// most of a second.
const patience = 20 * time.Second

// play plays a script text with a target of its own.
func play(t *testing.T, n int, name, text string) (script.Result, error) {
	t.Helper()
	s, err := script.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	c := peer.Config{Self: true, Local: place(n), Peer: place(n).Next()}
	c.Play.Limit = patience
	return peer.Play(context.Background(), s, c)
}

// TestProbes plays docs/probes: each of them is a rule of the transport.
func TestProbes(t *testing.T) {
	files, err := filepath.Glob("../../docs/probes/*.probe")
	if err != nil || len(files) < 200 {
		t.Fatalf("found %d scripts (%v), want at least 200", len(files), err)
	}
	free := make(chan int, places)
	for n := range places {
		free <- n
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".probe"), func(t *testing.T) {
			t.Parallel()
			n := <-free
			defer func() { free <- n }()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if head, _, _ := strings.Cut(string(text), "\n\n"); !strings.HasPrefix(head, "# ") || !strings.Contains(head, "IBTA Vol 1, ") {
				t.Error("the script does not begin with the rule that it shows, and its paragraph")
			}
			if _, err := play(t, n, filepath.Base(file), string(text)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTheExamplesOfTheReferenceWork plays those that have a target.
func TestTheExamplesOfTheReferenceWork(t *testing.T) {
	text, err := os.ReadFile("../../docs/roceprobe.md")
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "\n") || !strings.Contains(block, "target\n") {
			continue
		}
		played++
		if _, err := play(t, 199, "example", block); err != nil {
			t.Errorf("%v in:\n%s", err, block)
		}
	}
	if played < 2 {
		t.Errorf("played %d examples", played)
	}
}

// Every timer code and every PSN that a script takes as a parameter can be set
// from outside.
func TestParametersComeFromOutside(t *testing.T) {
	text, err := os.ReadFile("../../docs/probes/rnr-nak-of-every-timer.probe")
	if err != nil {
		t.Fatal(err)
	}
	s, err := script.Parse("timer", string(text))
	if err != nil {
		t.Fatal(err)
	}
	for timer := range uint64(32) {
		c := peer.Config{Self: true, Local: place(200), Peer: place(200).Next()}
		c.Play.Limit = patience
		c.Play.Set = map[string]uint64{"timer": timer, "psn": 0xffffff}
		if _, err := peer.Play(context.Background(), s, c); err != nil {
			t.Fatal(err)
		}
	}
}

// What a script expects and does not get is a failure that says which statement
// it was, what was wanted and what came.
func TestFailuresSayWhatCame(t *testing.T) {
	head := "target\n mr a 64 local_write remote_write\nend\n"
	write := "send RC WRITE_ONLY psn=0 va=a.va rkey=a.rkey dma=8 len=8 fill=1 ack\n"
	for n, c := range []struct{ text, want string }{
		{head + write + "expect RC ACK psn=0 syndrome=NAK_SEQUENCE", "x:5: expect RC ACK psn=0 syndrome=NAK_SEQUENCE: RC ACK psn=0 qp=0x11 pad=0 len=0 ACK msn=1 came: syndrome is ACK, want NAK/sequence"},
		{head + write + "expect RC ACK psn=1", "psn is 0, want 1"},
		{head + write + "expect RC READ_RESPONSE_ONLY psn=0", "it is RC ACK"},
		{head + write + "silence 20s", "RC ACK psn=0 qp=0x11 pad=0 len=0 ACK msn=1 came"},
		{head + "limit 10ms\nexpect RC ACK psn=0", "nothing came in"},
		{head + "limit 10ms\ncomplete recv id=1", "there is no completion; the queue pair is in RTS"},
		{head + "limit 10ms\nstate ERR", "it is in RTS"},
		{head + "limit 10ms\ncounter drop_icrc = 1", "it is 0"},
		{head + "counter icrc = 1", "there is no counter icrc"},
		{head + "memory a off=60 len=8 fill=1", "len=0x8: up to 0x4 is possible"},
		{head + "memory a off=0 len=4 fill=1", "byte 0 is 0x00, want 0x01"},
		{head + "post send id=1 mr=b", "there is no region b"},
		{head + "modify SQE", "there is no state SQE"},
		{head + "modify INIT", "modify to INIT"},
		{head + "post recv id=1 mr=a\nmodify ERR\ncomplete recv id=2 status=any", "the completion is id=1 status=WR_FLUSH_ERR"},
		{head + "post recv id=1 mr=a\nsend RC SEND_ONLY psn=0 len=3 ack\nexpect RC ACK", "a completion is left: id=1 status=SUCCESS op=RECV len=3"},
		{"target\nend\nsrq limit 1", "the target has no shared receive queue"},
		{"target\nend\nsrq fail", "the target has no shared receive queue"},
		{"target\nend\nattach 239.192.65.1", "attach"},
		{"target\n type ud\nend\ndetach 239.192.65.1", "invalid"},
		{"target\n type ud\nend\nattach 127.0.0.1", "invalid"},
		{"target\n mw w 0\nend", "window w: "},
		{"target\n mw w 2\nend\npost bind id=1 mw=v", "there is no window v"},
		{"target\n mw w 2\nend\npost bind id=1 mw=w mr=a", "there is no region a"},
		{"target\n mw w 2\nend\npost bind id=1 mw=w", "post bind"},
		{head + "grh a", "it is from 0.0.0.0 to 0.0.0.0, want 127."},
		{head + "memory a off=0 len=1\ngrh a off=30", "len=0x28: up to 0x22 is possible"},
		{"target\n type ud\n mr a 64\nend\npost write id=1 mr=a va=1 rkey=2", "post write"},
		{"target\n mr a 64 flush_persistent\nend", "region a: "},
		{"target\n mtu 1000\nend", "mtu 1000: 256, 512, 1024, 2048 and 4096 are possible"},
		{"target\n mr a 0 local_write\nend", "region a: "},
		{"post send id=1\ntarget\nend", "there is no target block before it"},
	} {
		_, err := play(t, 210+n%20, "x", c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// A script without a target in the process tells what its peer has to do, and
// exchanges packets with whoever is there: here another script, over both
// families. Loopback has one IPv6 address, so there the ports differ.
func TestTwoScriptsTalk(t *testing.T) {
	a := place(240)
	for _, ends := range [][2]netip.AddrPort{
		{netip.AddrPortFrom(a, roce.Port), netip.AddrPortFrom(a.Next(), roce.Port)},
		{netip.AddrPortFrom(netip.IPv6Loopback(), 30000+uint16(os.Getpid()&0xfff)), netip.AddrPortFrom(netip.IPv6Loopback(), 35000+uint16(os.Getpid()&0xfff))},
	} {
		wires := [2]*peer.Wire{}
		for i := range wires {
			w, err := peer.ListenWire(ends[i], ends[1-i], nil)
			if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
				t.Skipf("no IPv6 here: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}()
			wires[i] = w
		}
		done := make(chan error, 1)
		go func() { done <- talk(wires[1], ends[1], ends[0], answers, nil, nil) }()
		var told []string
		err := talk(wires[0], ends[0], ends[1], asks, map[string]uint64{"qpn": 0x99}, func(line string) { told = append(told, line) })
		if err = errors.Join(err, <-done); err != nil {
			t.Error(err)
		}
		want := []string{"the peer is to have: mr a 64 remote_read", "the peer: state RTS"}
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told %q, want %q", told, want)
		}
	}
}

// What two scripts say to each other.
const (
	asks = `param qpn
target
 mr a 64 remote_read
end
send RC READ_REQUEST psn=5 va=0x1000 rkey=7 dma=8 ack
expect RC READ_RESPONSE_ONLY psn=5 len=8 data=0102030405060708 msn=?m
check m == 1
state RTS`
	answers = `set local_qpn = 0x99
set qpn = 0x11
expect RC READ_REQUEST psn=?p va=?va dma=8 ack qp=0x99
check va == 0x1000
send RC READ_RESPONSE_ONLY psn=p msn=1 data=0102030405060708 len=8`
)

// talk plays a script on a wire.
func talk(w *peer.Wire, local, to netip.AddrPort, text string, set map[string]uint64, note func(string)) error {
	s, err := script.Parse("talk", text)
	if err != nil {
		return err
	}
	_, err = s.Play(context.Background(), script.Config{
		Wire: w, Local: local, Peer: to, Limit: patience, Set: set, Note: note,
	})
	return err
}
