package link

import (
	"net/netip"
	"sync"
	"syscall"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/roce"
)

// What one system call may take.
const (
	sendMessages = 64
	sendPieces   = 1024 // the kernel's limit, which also holds for one message
	copyPayload  = 1024 // up to so many bytes copying is cheaper than a piece
	stageFrame   = frame.HeadSize + copyPayload + 3 + roce.ICRCLen
	stageSize    = 256 * stageFrame
	maxDatagram  = 65535 - 48 // with the larger headers, those of IPv6
)

// A sender makes frames into messages. A message is one datagram, or a run of
// packets that the kernel cuts into datagrams:
//
//	stage    head | payload …      pad ICRC head | payload …      pad ICRC
//	memory                 payload                       payload
//
// Headers, short payloads, pads and ICRCs are written one behind the other into
// the stage, so that trailer and next header make one piece.
type sender struct {
	mu    sync.Mutex
	cut   bool // the kernel cuts large sends
	flows flows
	batch *sys.SendBatch
	ends  [sendMessages]int // frames up to the end of each message
	stage []byte
	added int           // bytes of the stage that are pieces already
	err   syscall.Errno // the last one for which frames were dropped
}

func (s *sender) init(local netip.AddrPort, cut bool) {
	s.flows.local, s.cut = local, cut
	s.batch = sys.NewSendBatch(sendMessages, sendPieces)
	s.stage = make([]byte, 0, stageSize)
}

// Send computes the ICRCs and hands the frames to the kernel. Frames that can
// not be packets are taken and dropped.
func (u *UDP) Send(frames []*frame.Frame) (taken int) {
	u.send.mu.Lock()
	defer u.send.mu.Unlock()
	for taken < len(frames) {
		n, room := u.sendSome(frames[taken:])
		taken += n
		if !room {
			u.sent.blocked.Add(1)
			u.sock.WatchRoom()
			u.blocked.Store(true)
			break
		}
	}
	return taken
}

// sendSome sends what fits one batch. It returns how many frames are done, and
// false if the socket has no room for the next.
func (u *UDP) sendSome(frames []*frame.Frame) (done int, room bool) {
	if u.closed.Load() {
		u.sent.drop(frames)
		return len(frames), true
	}
	s := &u.send
	s.stage, s.added = s.stage[:0], 0
	defer s.batch.Reset()
	total := 0
	for s.batch.Len() < sendMessages && total < len(frames) {
		n := s.build(u.sock, frames[total:])
		if n == 0 {
			break
		}
		total += n
		s.ends[s.batch.Len()-1] = total
	}
	if total == 0 { // whatever is wrong with it will not get better
		u.sent.drop(frames[:1])
		return 1, true
	}
	return u.flush(frames)
}

// flush sends the batch, which was built from the given frames.
func (u *UDP) flush(frames []*frame.Frame) (done int, room bool) {
	s := &u.send
	for at := 0; at < s.batch.Len(); {
		n, err := s.batch.Send(u.sock, at)
		u.sent.calls++
		if n > 0 {
			for i := range n {
				u.sentMessage(frames[done:s.ends[at+i]])
				done = s.ends[at+i]
			}
			at += n
			continue
		}
		message := frames[done:s.ends[at]]
		errno, _ := err.(syscall.Errno)
		switch errno {
		case syscall.EAGAIN, syscall.ENOBUFS, syscall.ENOMEM:
			return done, false
		case syscall.EIO, syscall.EINVAL:
			if len(message) > 1 { // the device cannot cut: send them one by one
				s.cut = false
				return done, true
			}
		}
		s.err = errno
		u.sent.drop(message)
		done = s.ends[at]
		at++
	}
	return done, true
}

// sentMessage sends back the frames of a message that the kernel has copied.
func (u *UDP) sentMessage(frames []*frame.Frame) {
	p := pushed{taken: len(frames)}
	for _, f := range frames {
		if !f.Handed() {
			p.twice++
			continue
		}
		p.bytes += wireLen(f)
		f.Back()
	}
	u.sent.add(p)
	if len(frames) > 1 {
		u.sent.merged += uint64(len(frames))
	}
}

// build makes one message of the first frames, and returns of how many: 0 if
// there is no room, or the first is no packet.
func (s *sender) build(sock *sys.UDP, frames []*frame.Frame) (n int) {
	peer, as := frames[0].Peer, sys.IPHeader{TOS: frames[0].TOS, TTL: frames[0].TTL}
	to := s.flows.find(peer)
	if to == nil || peer.Port == 0 {
		return 0
	}
	size, total := wireLen(frames[0])+roce.ICRCLen, 0
	for n < len(frames) && n < s.maxRun() {
		f := frames[n]
		length := wireLen(f) + roce.ICRCLen
		if length > size || total+length > maxDatagram || n > 0 && (f.Peer != peer || f.TOS != as.TOS || f.TTL != as.TTL) ||
			n == 1 && frames[0].Len > 0 && acknowledges(f) {
			break
		}
		if !s.add(f, to, n) {
			break
		}
		total += length
		if n++; length < size { // only the last may be shorter
			break
		}
	}
	if n == 0 {
		return 0
	}
	s.close()
	segment := 0
	if n > 1 {
		segment = size
	}
	s.batch.EndAs(sock, to.addr, segment, as)
	return n
}

// acknowledges reports whether f is an acknowledgement. It does not share the
// datagram of a lone packet with a payload: whoever waits for that can answer
// before it has to take in the acknowledgement, and the kernel cuts nothing.
func acknowledges(f *frame.Frame) bool {
	return int(f.HeadLen) >= roce.BTHLen && (*roce.BTH)(f.Head[:]).Opcode() == roce.RCAck
}

func (s *sender) maxRun() int {
	if s.cut {
		return sys.MaxSegments
	}
	return 1
}

// add appends a packet to the message that is being made. It reports false and
// adds nothing if there is no room, or if the frame is no packet.
func (s *sender) add(f *frame.Frame, to *flow, segment int) bool {
	if int(f.HeadLen) > len(f.Head) || cap(s.stage)-len(s.stage) < stageFrame ||
		s.batch.Free() < len(f.Payload)+2 || !sound(f) {
		return false
	}
	h, rest, ok := roce.ParseHeaders(f.Head[:f.HeadLen])
	if !ok || len(rest) > 0 {
		return false
	}
	start := len(s.stage)
	s.stage = append(s.stage, h.Bytes()...)
	var c roce.ICRC
	if f.Len <= copyPayload {
		for _, p := range f.Payload {
			s.stage = append(s.stage, p...)
		}
		s.stage = append(s.stage, zeros[:f.Pad]...)
		c = to.icrc.Over(s.stage[start:], h.Len(), roce.Segment(segment))
	} else {
		c = to.icrc.Start(h, f.Len+int(f.Pad), roce.Segment(segment))
		s.close()
		for _, p := range f.Payload {
			c = c.Add(p)
			s.batch.Add(p)
		}
		s.stage = append(s.stage, zeros[:f.Pad]...)
		c = c.AddPad(int(f.Pad))
	}
	var tail [roce.ICRCLen]byte
	(c ^ roce.ICRC(f.Damage)).Put(&tail)
	s.stage = append(s.stage, tail[:]...)
	return true
}

// zeros are the bytes of a pad.
var zeros [3]byte

// sound reports whether the lengths of f are true.
func sound(f *frame.Frame) bool {
	n := 0
	for _, p := range f.Payload {
		n += len(p)
	}
	return n == f.Len && f.Pad < 4
}

// close makes a piece of what was added to the stage since the last one.
func (s *sender) close() {
	s.batch.Add(s.stage[s.added:])
	s.added = len(s.stage)
}
