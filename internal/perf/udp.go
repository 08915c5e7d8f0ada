package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// A UDPResult says what bare UDP sockets do between two processes, which is
// the most that a transport on top of them can reach.
type UDPResult struct {
	Size       int     `json:"size"`            // bytes of a packet, without the headers that RoCE adds
	PacketSize int     `json:"packet_size"`     // with them
	GSO        bool    `json:"gso"`             // the kernel cut large sends into packets
	GRO        bool    `json:"gro"`             // and merged packets that arrived
	Average    float64 `json:"bw_avg_gbps"`     // 1e9 bits a second, without the headers
	Peak       float64 `json:"bw_peak_gbps"`    // of the best slice
	Lost       uint64  `json:"lost"`            // packets
	Window     int     `json:"window"`          // bytes in flight
	PingSize   int     `json:"ping_size"`       // bytes of a ping, without those headers
	HalfP50    float64 `json:"half_rtt_p50_us"` // of a ping and its echo
	HalfP99    float64 `json:"half_rtt_p99_us"`

	RC *UDPRatios `json:"rc,omitempty"`
	UD *UDRatio   `json:"ud,omitempty"`
}

// A UDPTest says what to measure with bare sockets.
type UDPTest struct {
	Size     int           // bytes of payload of a packet
	Duration time.Duration // of the whole
	Peer     func(context.Context) *exec.Cmd
	RC       *RCBeside // measure the reliable connection beside it, or nil
	UD       *RCBeside // measure datagrams of that size beside it, or nil
}

// MaxUDPSize is the largest size: what fits into a datagram.
const MaxUDPSize = 65507 - roceHeaders

const (
	roceHeaders = 12 + 4  // BTH and ICRC
	pingSize    = 64      // of which most small messages are
	udpWindow   = 1 << 20 // as much as gantry perf has in flight
	largestSend = 65000   // bytes of one send
	sendsAtOnce = 4       // sends of one system call
	ackPatience = 200 * time.Millisecond
)

// The first byte of a datagram says what it is.
const (
	datagramStream = 'S' // to be counted
	datagramPing   = 'P' // to be sent back
	datagramQuit   = 'Q'
)

// MeasureUDP starts the peer, a process that runs [UDPPeer], and streams to it
// and plays ping-pong with it in turns.
func MeasureUDP(ctx context.Context, t UDPTest, w Watch) (res UDPResult, err error) {
	if t.Size < 1 || t.Size > MaxUDPSize {
		return res, fmt.Errorf("size %d: 1 to %d are possible: %w", t.Size, MaxUDPSize, ErrRCParameter)
	}
	runtime.LockOSThread() // as who polls for the connection beside it: see holdThread
	defer runtime.UnlockOSThread()
	p, err := startUDPPeer(ctx, t.Peer)
	if err != nil {
		return res, err
	}
	defer func() { core.KeepFirst(&err, p.close(err)) }()
	s, err := newUDPStream(ctx, t.Size, p)
	if err != nil {
		return res, err
	}
	defer func() { core.KeepFirst(&err, s.socket.Close()) }()
	if err = s.measure(t, &res, w); err != nil {
		return res, p.explain(err)
	}
	return res, nil
}

// A udpStream is the sending end of a bare stream. The receiver answers with
// what it has counted, so that no more is sent than its buffer holds.
type udpStream struct {
	ctx    context.Context
	peer   *udpPeer
	socket *sys.UDP
	size   int // of a packet, with headers
	run    int // packets of one send

	out  *sys.SendBatch
	in   *sys.RecvBatch
	data []byte
	ack  []byte

	sent, acked uint64 // packets
	merged      bool
	lost        uint64
	failed      error
	trips       *hdrhistogram.Histogram
	courtesy    notify.Courtesy // of who polls for echoes
}

func newUDPStream(ctx context.Context, size int, p *udpPeer) (*udpStream, error) {
	u, _, err := openBare()
	if err != nil {
		return nil, err
	}
	s := &udpStream{ctx: ctx, peer: p, socket: u, size: size + roceHeaders, run: 1, trips: newLatencies()}
	if u.CanCut() {
		s.run = max(1, min(largestSend/s.size, sys.MaxSegments))
	}
	s.out, s.in = sys.NewSendBatch(sendsAtOnce, sendsAtOnce), sys.NewRecvBatch(1)
	s.data, s.ack = make([]byte, s.run*s.size), make([]byte, ackSize+pingSize+roceHeaders)
	for i := 0; i < len(s.data); i += s.size {
		s.data[i] = datagramStream
	}
	s.in.Set(0, s.ack)
	return s, nil
}

func (s *udpStream) measure(t UDPTest, res *UDPResult, w Watch) (err error) {
	stream := &contender{run: s.stream, least: 64 * s.run}
	ping := &contender{run: s.pings, least: 64, warm: s.trips.Reset}
	all := []*contender{stream, ping}
	switch {
	case t.UD != nil:
		res.UD, err = s.besideUD(t, all, w)
	case t.RC != nil:
		res.RC, err = s.besideRC(t, all, w)
	default:
		err = takeTurns(s.ctx, t.Duration, rcSlice, w, all...)
	}
	if core.KeepFirst(&err, s.failed); err != nil {
		return err
	}
	bits := 8 * float64(t.Size)
	res.Size, res.PacketSize, res.Window, res.PingSize = t.Size, s.size, udpWindow, pingSize
	res.GSO, res.GRO, res.Lost = s.run > 1, s.merged, s.lost
	res.Average, res.Peak = bits/median(stream.ns), bits/slices.Min(stream.ns)
	trips := latencyOf(s.trips, true)
	res.HalfP50, res.HalfP99 = trips.Typical, trips.P99
	return nil
}

// stream sends n packets and waits until they were counted.
func (s *udpStream) stream(n int) (did int, took time.Duration) {
	if s.failed != nil {
		return n, untilFailed
	}
	from, start := s.acked, time.Now()
	s.sent = s.acked
	last := start // when the count last grew
	for end := from + uint64(n); s.acked < end; {
		s.sendSome(end)
		if s.takeAck() {
			last = time.Now()
		} else if s.sent == end || s.inFlight() >= udpWindow {
			if time.Since(last) > ackPatience {
				break
			}
		}
		if s.failed != nil || s.ctx.Err() != nil {
			return n, untilFailed
		}
	}
	s.lost += s.sent - s.acked
	return max(1, int(s.acked-from)), time.Since(start)
}

func (s *udpStream) inFlight() int { return int(s.sent-s.acked) * s.size }

// sendSome sends what the window allows.
func (s *udpStream) sendSome(end uint64) {
	s.out.Reset()
	batch := s.sent
	for batch < end && s.out.Len() < sendsAtOnce && int(batch-s.acked)*s.size < udpWindow {
		n := min(s.run, int(end-batch))
		s.out.Add(s.data[:n*s.size])
		segment := 0
		if n > 1 {
			segment = s.size
		}
		s.out.End(s.socket, s.peer.addr, segment)
		batch += uint64(n)
	}
	for from := 0; from < s.out.Len(); {
		n, err := s.out.Send(s.socket, from)
		if err != nil {
			core.KeepFirst(&s.failed, unlessFull(err))
			break
		}
		from += n
		for range n {
			s.sent += uint64(min(s.run, int(end-s.sent)))
		}
	}
}

// takeAck takes one answer, if there is one, and reports whether the count grew.
func (s *udpStream) takeAck() bool {
	n, err := s.in.Recv(s.socket, 1)
	if n == 0 {
		core.KeepFirst(&s.failed, unlessFull(err))
		return false
	}
	if s.in.Got(0).Len != ackSize {
		return false // a late echo
	}
	count := binary.LittleEndian.Uint64(s.ack)
	s.merged = s.merged || s.ack[ackSize-1] != 0
	if count <= s.acked {
		return false
	}
	s.acked = count
	return true
}

// pings sends n pings, each when the one before has come back.
func (s *udpStream) pings(n int) (did int, took time.Duration) {
	if s.failed != nil {
		return n, untilFailed
	}
	ping := make([]byte, pingSize+roceHeaders)
	ping[0] = datagramPing
	start := time.Now()
	last := start
	for range n {
		s.out.Reset()
		s.out.Add(ping)
		s.out.End(s.socket, s.peer.addr, 0)
		if _, err := s.out.Send(s.socket, 0); err != nil {
			core.KeepFirst(&s.failed, unlessFull(err))
		}
		if !s.awaitEcho(last) {
			return n, untilFailed
		}
		now := time.Now()
		_ = s.trips.RecordValue(int64(now.Sub(last)))
		last = now
	}
	return n, time.Since(start)
}

// awaitEcho polls until an echo comes.
func (s *udpStream) awaitEcho(since time.Time) bool {
	for idle := 0; ; idle++ {
		n, err := s.in.Recv(s.socket, 1)
		if n == 1 && s.in.Got(0).Len != ackSize {
			return true
		}
		if n == 0 {
			core.KeepFirst(&s.failed, unlessFull(err))
		}
		if idle%looks == looks-1 && time.Since(since) > answerTime {
			core.KeepFirst(&s.failed, fmt.Errorf("an echo was lost: %w", core.ErrTimeOut))
		}
		if s.failed != nil || s.ctx.Err() != nil {
			return false
		}
		if s.courtesy.Turn(); idle > 1<<16 {
			notify.Nap(spinNap)
		}
	}
}
