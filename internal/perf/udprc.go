package perf

import (
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/gantry-rdma/gantry/core"
)

// An RCBeside says how the reliable connection is measured beside a bare
// stream.
type RCBeside struct {
	Addr     netip.Addr // of the peer's device; this end has the next one
	Executor string
	Workers  int
	Size     int // bytes of a WRITE; datagrams have that of the stream
}

// UDPRatios compare WRITEs and SENDs with bare packets of the same size, in
// the same run.
type UDPRatios struct {
	Executor     string  `json:"executor"`
	Workers      int     `json:"workers"`
	WriteSize    int     `json:"write_size"`
	WriteAverage float64 `json:"write_bw_avg_gbps"`
	WriteRatio   float64 `json:"write_bw_ratio"`       // to the bare stream
	SendHalfP50  float64 `json:"send_half_rtt_p50_us"` // of 64 bytes, on the inline executor
	SendRatio    float64 `json:"send_half_rtt_ratio"`  // to the bare ping-pong
	Retransmits  uint64  `json:"retransmits"`
}

// A UDRatio compares SENDs over UD with bare packets of the same size, in the
// same run: those that arrive.
type UDRatio struct {
	Executor string  `json:"executor"`
	Workers  int     `json:"workers"`
	Average  float64 `json:"bw_avg_gbps"`
	Rate     float64 `json:"msg_rate_mpps"`
	Ratio    float64 `json:"bw_ratio"` // to the bare stream
	Sent     int     `json:"sent"`     // messages
	Lost     int     `json:"lost"`     // of these
}

// besideUD lets datagrams take turns with the stream, and the pings with
// themselves.
func (s *udpStream) besideUD(t UDPTest, bare []*contender, w Watch) (res *UDRatio, err error) {
	send := NewRCTest("send_bw")
	send.Transport, send.Size, send.MTU = "UD", t.Size, max(256, 1<<bits.Len(uint(t.Size-1)))
	send.Executor, send.Workers = t.UD.Executor, t.UD.Workers
	send.Fill()
	res = &UDRatio{Executor: send.Executor, Workers: send.WorkerCount()}
	stream, ping := bare[0], bare[1]
	err = s.withRC(t.UD.Addr, send, func(r *rcRun) error {
		ud := &contender{run: r.timed, least: send.SendDepth, warm: r.forget}
		if err := takeTurns(r.ctx, t.Duration, rcSlice, w, stream, ud); err != nil {
			return err
		}
		res.Average, res.Rate = 8*float64(send.Size)/median(ud.ns), 1e3/median(ud.ns)
		res.Ratio = ratio(stream.ns, ud.ns)
		res.Sent, res.Lost = r.sent, r.gone
		return r.failed
	})
	if err != nil {
		return nil, err
	}
	return res, takeTurns(s.ctx, t.Duration/10, rcSlice, nil, ping)
}

// besideRC lets WRITEs take turns with the stream, and SENDs with the pings.
func (s *udpStream) besideRC(t UDPTest, bare []*contender, w Watch) (res *UDPRatios, err error) {
	stream, ping := bare[0], bare[1]
	write := NewRCTest("write_bw")
	write.Size, write.MTU = t.RC.Size, t.Size
	write.Executor, write.Workers = t.RC.Executor, t.RC.Workers
	write.Fill()
	send := NewRCTest("send_lat")
	send.Size, send.Executor = pingSize, "inline"
	send.Fill()
	res = &UDPRatios{Executor: write.Executor, Workers: write.WorkerCount(), WriteSize: write.Size}
	half := t.Duration / 2
	err = s.withRC(t.RC.Addr, write, func(r *rcRun) error {
		rc := &contender{run: r.timed, least: write.SendDepth}
		if err := takeTurns(r.ctx, half, rcSlice, w.Part(0, 1, 2), stream, rc); err != nil {
			return err
		}
		res.WriteAverage = 8 * float64(write.Size) / median(rc.ns)
		res.WriteRatio = ratio(stream.ns, rc.ns) * float64(write.Size) / float64(t.Size)
		_, moved, err := r.totals()
		res.Retransmits = moved.Retransmits
		return err
	})
	if err != nil {
		return nil, err
	}
	err = s.withRC(t.RC.Addr.Next().Next(), send, func(r *rcRun) error {
		rc := &contender{run: r.timed, least: 64, warm: r.trips.Reset}
		if err := takeTurns(r.ctx, half, rcSlice, w.Part(1, 1, 2), ping, rc); err != nil {
			return err
		}
		res.SendHalfP50 = latencyOf(r.trips, true).Typical
		res.SendRatio = ratio(rc.ns, ping.ns)
		return nil
	})
	return res, err
}

// withRC connects to a server in the other process.
func (s *udpStream) withRC(addr netip.Addr, t RCTest, f func(*rcRun) error) (err error) {
	if _, err = fmt.Fprintln(s.peer.in, addr); err != nil {
		return err
	}
	at, err := s.peer.line()
	if err != nil {
		return err
	}
	c, err := DialRC(s.ctx, at, RCDevice{Fabric: FabricUDP, Addr: addr.Next()})
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, c.Close()) }()
	if err = c.connected(s.ctx, t, f); err != nil {
		return err
	}
	return c.End(nil)
}
