package kit

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/gantry-rdma/gantry/roce"
)

// Weather says what happens to RoCEv2 packets, in both directions. Loss, Dup,
// Reorder and Corrupt are parts of the packets, 0 to 1; to one packet only one
// of them happens. The zero value is good weather.
type Weather struct {
	Loss    float64 // gone
	Dup     float64 // delivered twice
	Reorder float64 // overtaken by the next one to four, or 20 ms late
	Corrupt float64 // one bit flipped behind the UDP header
	Cut     bool    // nothing arrives
	NAT     bool    // the source port of what the guest sends is rewritten, as NAT does
	Seed    uint64  // what happens to the n-th packet of a direction depends on nothing else
}

// A Tally counts RoCEv2 packets of one direction.
type Tally struct {
	Packets   int    // sent
	BadICRC   int    // of these, with a wrong ICRC when they were sent
	FirstBad  string // the first of them
	Delivered int    // to the other end; more than sent if some were doubled
	Damaged   int    // of these
	Lost      int    // by the weather
	Doubled   int    // by the weather
	Reordered int    // by the weather
	Overrun   int    // frames of any kind that found the queue full
	Again     int    // requests whose PSN was sent before by the queue pair: see again
	Ends      int    // last packets of SENDs and WRITEs of a connection
	Asked     int    // of these, which ask for an acknowledgement
	Acks      int    // acknowledgements, of all kinds

	// Overdue is the shortest time after which one of them was sent again, and
	// Silence the longest in which the other end sent nothing.
	Overdue, Silence time.Duration
}

// A storm is the weather of one direction.
type storm struct {
	chance *rand.Rand
	held   []byte // overtaken
	behind int    // packets that still overtake it
	seen   map[uint32]roce.PSN
	sent   map[request]time.Time // the first time
}

// A request is a packet of a connection.
type request struct {
	qpn uint32
	psn roce.PSN
}

func newStorm(w Weather, way int) storm {
	return storm{chance: rand.New(rand.NewPCG(w.Seed, uint64(way))), seen: map[uint32]roce.PSN{}, sent: map[request]time.Time{}}
}

// lateness is how long an overtaken packet waits when no other comes.
const lateness = 20 * time.Millisecond

// blow carries the frames of a queue to the other end.
func (w *Wire) blow(way int, queue <-chan []byte, write func([]byte) error) {
	late := time.NewTimer(lateness)
	defer late.Stop()
	for {
		var out [][]byte
		select {
		case f, more := <-queue:
			if !more {
				return
			}
			out = w.strike(way, f)
			late.Reset(lateness)
		case <-late.C:
			w.mu.Lock()
			out = w.storms[way].release()
			w.mu.Unlock()
		}
		for _, f := range out {
			if write(f) != nil {
				return
			}
		}
	}
}

// listen notes that a packet is sent, and whether it is sent again.
func (w *Wire) listen(way int, d roce.Datagram) {
	now, t, other := time.Now(), &w.tally[way], &w.tally[1-way]
	if after, again := w.storms[way].again(d, now); again {
		if t.Again++; t.Overdue == 0 || after < t.Overdue {
			t.Overdue = after
		}
	}
	if !w.last[way].IsZero() {
		other.Silence = max(other.Silence, now.Sub(w.last[way]))
	}
	w.last[way] = now
}

// release returns the packet that was held.
func (s *storm) release() (out [][]byte) {
	if s.held != nil {
		out = append(out, s.held)
		s.held = nil
	}
	return out
}

// What the weather did, as the capture says it.
const (
	fine      = ""
	lost      = "lost on the way"
	doubled   = "delivered twice"
	overtaken = "overtaken on the way"
	damaged   = "damaged on the way"
)

// strike decides about one frame and returns what is to be delivered now.
func (w *Wire) strike(way int, f []byte) [][]byte {
	d, ok := packetOf(f)
	if !ok {
		return [][]byte{f}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t, s := &w.tally[way], &w.storms[way]
	t.count(d)
	w.listen(way, d)
	if w.weather.NAT && way == ToHost {
		rewrite(f)
	}
	what := w.weather.what(s)
	if w.film != nil {
		w.film.packet(f[etherLen:], way, what)
	}
	out := [][]byte{f}
	switch what {
	case lost:
		t.Lost++
		return nil
	case doubled:
		t.Doubled++
		out = append(out, f)
	case damaged:
		t.Damaged++
		damage(f, d, s.chance)
	case overtaken:
		if s.held == nil {
			t.Reordered++
			t.Delivered++
			s.held, s.behind = f, 1+s.chance.IntN(4)
			return nil
		}
	}
	t.Delivered += len(out)
	if s.held != nil {
		if s.behind--; s.behind <= 0 {
			out = append(out, s.release()...)
		}
	}
	return out
}

// what draws what happens to a packet.
func (w Weather) what(s *storm) string {
	if w.Cut {
		return lost
	}
	if w.Loss+w.Dup+w.Reorder+w.Corrupt == 0 {
		return fine
	}
	u := s.chance.Float64()
	for _, c := range []struct {
		part float64
		what string
	}{{w.Loss, lost}, {w.Dup, doubled}, {w.Reorder, overtaken}, {w.Corrupt, damaged}} {
		if u -= c.part; u < 0 {
			return c.what
		}
	}
	return fine
}

// Parts of an Ethernet frame.
const (
	etherLen  = 14
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	udpPort   = 4791
)

// packetOf returns the RoCEv2 packet in a frame.
func packetOf(f []byte) (d roce.Datagram, ok bool) {
	if len(f) < etherLen {
		return d, false
	}
	if kind := binary.BigEndian.Uint16(f[12:]); kind != etherIPv4 && kind != etherIPv6 {
		return d, false
	}
	d, ok = roce.ParseIP(f[etherLen:])
	return d, ok && d.Dst().Port() == udpPort
}

// count verifies a packet, and looks at who asks and who answers.
func (t *Tally) count(d roce.Datagram) {
	t.Packets++
	if d.Valid() {
		t.converse(d)
		return
	}
	if t.BadICRC++; t.BadICRC == 1 {
		t.FirstBad = d.Src().String() + " to " + d.Dst().String()
		if p, ok := roce.Parse(d.Payload()); ok {
			t.FirstBad += ": " + p.String()
		}
	}
}

// converse counts the end of a message, or an acknowledgement.
func (t *Tally) converse(d roce.Datagram) {
	p, ok := roce.Parse(d.Payload())
	if !ok || p.Opcode().Transport() != roce.RC {
		return
	}
	switch op := p.Opcode(); {
	case op.Has(roce.IsAck):
		t.Acks++
	case op.Has(roce.IsEnd | roce.IsSend), op.Has(roce.IsEnd | roce.IsWrite):
		if t.Ends++; p.BTH().AckReq() {
			t.Asked++
		}
	}
}

// again reports whether a packet is a request of a connection that its sender
// sends again, one that is not beyond the last that went to the queue pair, and
// how long after the first time.
func (s *storm) again(d roce.Datagram, now time.Time) (after time.Duration, again bool) {
	p, ok := roce.Parse(d.Payload())
	if !ok || s.seen == nil {
		return 0, false
	}
	op := p.Opcode()
	if tr := op.Transport(); tr != roce.RC || !op.Has(roce.IsRequest) {
		return 0, false
	}
	r := request{p.BTH().DestQP(), p.BTH().PSN()}
	last, known := s.seen[r.qpn]
	if known && r.psn.Sub(last) <= 0 {
		if first, ok := s.sent[r]; ok {
			after = now.Sub(first)
		}
		return after, true
	}
	s.seen[r.qpn], s.sent[r] = r.psn, now
	return 0, false
}

// translated is the source port that NAT gives. Like all of a UDP header, the
// ICRC covers it.
const translated = 61234

// rewrite changes the source port of a frame with a UDP packet. Without options
// that is where it is; the checksum is taken off, as IPv4 allows and as receivers
// of RoCEv2 over IPv6 do.
func rewrite(f []byte) {
	udp := etherLen + 40
	if f[etherLen]>>4 == 4 {
		udp = etherLen + int(f[etherLen]&15)*4
	}
	binary.BigEndian.PutUint16(f[udp:], translated)
	f[udp+6], f[udp+7] = 0, 0
}

// congestion is the byte of the BTH that no ICRC covers.
const congestion = 4

// damage flips a bit of the packet behind the UDP header that the ICRC covers,
// or one of the ICRC. The UDP checksum is taken off, so that it is the ICRC that
// has to notice.
func damage(f []byte, d roce.Datagram, chance *rand.Rand) {
	b := d.Payload()
	bit := chance.IntN(len(b) * 8)
	for bit/8 == congestion {
		bit = chance.IntN(len(b) * 8)
	}
	b[bit/8] ^= 1 << (bit % 8)
	head := f[etherLen:]
	udp := 40
	if head[0]>>4 == 4 {
		udp = int(head[0]&15) * 4
	}
	head[udp+6], head[udp+7] = 0, 0
}
