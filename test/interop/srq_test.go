//go:build linux

package interop

import (
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/gantry-rdma/gantry/internal/pingpong"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// ibv_srq_pingpong plays over several queue pairs of one shared receive queue:
// each end sends over each of them, and sends again when what it sent and a
// message of the other end are done, until it has sent and received so many.
const (
	srqPairs = 4
	srqIters = 200
	srqSize  = 3000
	srqDepth = 32

	// The original tells of so many queue pairs, however many there are; those
	// that are not there are zeros.
	srqTold = 256
)

// A table is Gantry's end of ibv_srq_pingpong.
type table struct {
	*end
	pairs [srqPairs]*verbs.QP
}

// sharedPingpong plays with the original, as server or as client.
func (x *row) sharedPingpong(server bool) {
	port++
	y := &table{end: &end{x: x}}
	y.open(host4, plan{kind: verbs.RC, srq: true})
	y.pairs[0] = y.qp
	for i := range y.pairs[1:] {
		var err error
		y.pairs[i+1], err = y.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: y.cq, RecvCQ: y.cq, SRQ: y.srq, SQSigAll: true,
			Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}})
		x.must(err)
	}
	for _, q := range y.pairs {
		x.must(q.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: remote}, verbs.MaskInit))
	}
	for range srqDepth {
		y.receive(0, srqSize)
	}
	argv := []string{"ibv_srq_pingpong", "-d", "rxe0", "-g", strconv.Itoa(x.gids[guest4]), "-p", strconv.Itoa(port), "-s", strconv.Itoa(srqSize),
		"-m", "1024", "-q", strconv.Itoa(srqPairs), "-r", strconv.Itoa(srqDepth), "-n", strconv.Itoa(srqIters), "-c"}
	if server {
		y.serve(argv)
	} else {
		y.call(argv)
	}
	y.play(!server)
	y.finish()
}

// serve is the server's side of the exchange.
func (y *table) serve(argv []string) {
	x := y.x
	var lc net.ListenConfig
	l, err := lc.Listen(x.ctx, "tcp4", netip.AddrPortFrom(host4, uint16(port)).String())
	x.must(err)
	x.after(func() { _ = l.Close() }) // nobody calls a second time
	y.peer = x.spawn(append(argv, host4.String())...)
	conn, err := l.Accept()
	x.must(err)
	x.after(func() { _ = conn.Close() }) // the peer may have closed it
	y.read(conn)
	y.write(conn)
	_, err = io.ReadFull(conn, make([]byte, len("done\x00")))
	x.must(err)
}

// call is the client's.
func (y *table) call(argv []string) {
	x := y.x
	y.peer = x.spawn(argv...)
	x.awaitListener(x.guestListens)
	var d net.Dialer
	conn, err := d.DialContext(x.ctx, "tcp4", netip.AddrPortFrom(guest4, uint16(port)).String())
	x.must(err)
	x.after(func() { _ = conn.Close() }) // the peer may have closed it
	y.write(conn)
	y.read(conn)
	_, err = conn.Write([]byte("done\x00"))
	x.must(err)
}

// write tells where the queue pairs are.
func (y *table) write(conn net.Conn) {
	var b []byte
	for i := range srqTold {
		var d pingpong.Dest
		if i < len(y.pairs) {
			d = pingpong.Dest{QPN: y.pairs[i].Num(), PSN: firstOf(i), GID: verbs.GIDOf(host4)}
		}
		b = d.Append(b)
	}
	_, err := conn.Write(b)
	y.x.must(err)
}

// firstOf is the packet number that queue pair i begins with.
func firstOf(i int) roce.PSN { return roce.PSN(i * 1000) }

// read connects the queue pairs with those of the other end.
func (y *table) read(conn net.Conn) {
	x := y.x
	b := make([]byte, srqTold*pingpong.DestLen)
	_, err := io.ReadFull(conn, b)
	x.must(err)
	mtu, _ := roce.MTUOf(1024)
	for i, q := range y.pairs {
		d, err := pingpong.ParseDest(b[i*pingpong.DestLen:][:pingpong.DestLen])
		x.must(err)
		x.must(q.Modify(verbs.QPAttr{State: verbs.StateRTR, AV: verbs.AVTo(d.GID.Addr()), PathMTU: mtu, DestQPN: d.QPN, RQPSN: d.PSN,
			MaxDestRdAtomic: 1, MinRNRTimer: 12}, verbs.MaskRTR))
		x.must(q.Modify(verbs.QPAttr{State: verbs.StateRTS, SQPSN: firstOf(i), Timeout: 17, RetryCnt: 7, RNRRetry: 7, MaxQPRdAtomic: 1}, verbs.MaskRTS))
	}
}

// play sends and receives. The client sends first.
func (y *table) play(first bool) {
	sent, received, posted := 0, 0, 0
	waits := map[uint32]int{} // by queue pair: what it waits for before it sends again
	const send, recv = 1, 2
	post := func(q *verbs.QP) {
		if posted < srqIters {
			_, err := q.PostSend(verbs.SendWR{Opcode: verbs.WRSend, SG: []verbs.SGE{y.mr.SGE(4096, srqSize)}})
			y.x.must(err)
			posted++
			waits[q.Num()] = send | recv
		}
	}
	byNum := map[uint32]*verbs.QP{}
	for _, q := range y.pairs {
		byNum[q.Num()] = q
		waits[q.Num()] = recv
		if first {
			post(q)
		}
	}
	for sent < srqIters || received < srqIters {
		wc := y.wait(verbs.WCSuccess)
		if wc.Opcode == verbs.WCRecv {
			received++
			y.receive(0, srqSize)
			waits[wc.QPN] &^= recv
		} else {
			sent++
			waits[wc.QPN] &^= send
		}
		if waits[wc.QPN] == 0 {
			post(byNum[wc.QPN])
		}
	}
}
