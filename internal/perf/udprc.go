package perf

import (
	"fmt"
	"net/netip"

	"github.com/gantry-rdma/gantry/core"
)

// An RCBeside says how the reliable connection is measured beside a bare
// stream.
type RCBeside struct {
	Addr     netip.Addr // of the peer's device; this end has the next one
	Executor string
	Workers  int
	Size     int // bytes of a WRITE
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
