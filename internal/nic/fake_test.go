package nic

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// A script is a link whose other end is the test.
type script struct {
	mu    sync.Mutex
	in    []*frame.Frame
	sent  []roce.Opcode
	given int
	full  bool   // takes nothing
	while func() // called once, inside the next Send
	room  func()
	ready func()
}

var (
	here  = frame.Addr{IP: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}, Port: roce.Port}
	there = frame.Addr{IP: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 2}, Port: roce.Port}
)

func (s *script) Send(frames []*frame.Frame) int {
	if f := s.while; f != nil {
		s.while = nil
		f()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return 0
	}
	for _, f := range frames {
		f.Handed()
		s.sent = append(s.sent, (*roce.BTH)(f.Head[:]).Opcode())
		f.Back()
	}
	return len(frames)
}

func (s *script) Recv(frames []*frame.Frame) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(frames, s.in)
	s.in = s.in[n:]
	return n
}

func (s *script) Give(frames []*frame.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given += len(frames)
}

func (s *script) Wait() bool            { return false }
func (s *script) OnReady(f func())      { s.ready = f }
func (s *script) OnRoom(f func())       { s.room = f }
func (s *script) Local() frame.Addr     { return here }
func (s *script) MTU() int              { return 4096 }
func (s *script) Pollable() (int, bool) { return -1, false }
func (s *script) Stats() link.Stats     { return link.Stats{} }
func (s *script) Close() error          { return nil }
func (s *script) SeeHeaders()           {}
func (s *script) Join(netip.Addr) error { return nil }

func (s *script) Leave(netip.Addr) error { return nil }

// arrive hands in frames and lets the device work.
func (s *script) arrive(d *Device, frames ...*frame.Frame) {
	s.mu.Lock()
	s.in = append(s.in, frames...)
	s.mu.Unlock()
	s.ready()
	for d.Drive(0) {
	}
}

// A bench is a device over a script, with a queue pair in RTS.
type bench struct {
	d  *Device
	s  *script
	q  *QP
	pd *PD
	cq *CQ
	mr *MR
}

func newBench(t testing.TB) *bench {
	t.Helper()
	s := new(script)
	return newBenchOn(t, s, s)
}

// newBenchOn is newBench with something around the script.
func newBenchOn(t testing.TB, s *script, around link.Link) *bench {
	t.Helper()
	x := work.NewInline()
	b := &bench{s: s}
	var err error
	if b.d, err = Open(Config{Link: around, Executor: x}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.s.mu.Lock()
		b.s.full = false
		b.s.mu.Unlock()
		if err := b.d.Close(); err != nil {
			t.Error(err)
		}
		x.Close()
	})
	b.pd = b.d.NewPD()
	if b.cq, err = b.d.NewCQ(1024, nil); err != nil {
		t.Fatal(err)
	}
	all := qp.LocalWrite | qp.RemoteRead | qp.RemoteWrite | qp.RemoteAtomic
	if b.mr, err = b.pd.Register(make([]byte, 1<<16), all); err != nil {
		t.Fatal(err)
	}
	b.q = b.newQP(t)
	return b
}

func (b *bench) newQP(t testing.TB) *QP { return b.newQPOf(t, nil) }

// newQPOf makes a queue pair that takes its receives from s.
func (b *bench) newQPOf(t testing.TB, s *SRQ) *QP {
	t.Helper()
	q, err := b.d.NewQP(QPConfig{
		PD: b.pd, Transport: roce.RC, SendCQ: b.cq, RecvCQ: b.cq, SendDepth: 16, RecvDepth: 16, SendSGE: 1, RecvSGE: 1,
		SRQ: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	q.ToInit()
	all := qp.RemoteRead | qp.RemoteWrite | qp.RemoteAtomic
	q.ToRTR(qp.ResponderConfig{DestQPN: 0x77, MTU: roce.MTU1024, PSN: 100, MaxDestRdAtomic: 4, MinRNRTimer: 1, Access: all}, AddressVector{IP: there.IP})
	q.ToRTS(qp.SenderConfig{DestQPN: 0x77, MTU: roce.MTU1024, PSN: 500, Timeout: 14, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 4})
	return q
}

// packet returns a request with the next PSN to the queue pair, changed by edit.
func (b *bench) packet(o roce.Opcode, payload int, edit func(f *frame.Frame, h roce.Headers)) *frame.Frame {
	f := &frame.Frame{Peer: there, Local: here, Len: payload, Pad: uint8(roce.PadFor(payload))}
	h := roce.Build((*[roce.HeadSize]byte)(&f.Head), o)
	f.HeadLen = uint8(h.Len())
	h.BTH().SetDestQP(b.q.num)
	h.BTH().SetPSN(100)
	h.BTH().SetPad(int(f.Pad))
	if payload > 0 {
		f.Payload = [][]byte{make([]byte, payload)}
	}
	if edit != nil {
		edit(f, h)
	}
	return f
}

func (d *Device) counter(name string) uint64 {
	for _, c := range d.Counters() {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}
