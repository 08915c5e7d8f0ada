package cm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/conn"
	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// A PortSpace is what ports are counted in. The numbers are those of librdmacm.
type PortSpace uint16

// The port spaces.
const (
	TCP PortSpace = 0x0106 // connections: queue pairs of type RC and UC
	UDP PortSpace = 0x0111 // datagrams: queue pairs of type UD
	// IB is for connections as well. The kernel knows queue pairs of type UC here
	// alone: those of its TCP are of type RC.
	IB PortSpace = 0x013f
)

// A phase is what an ID has come to.
type phase uint8

const (
	idle      phase = iota
	listening       // has a listener
	resolved        // knows its peer
	routed          // may connect
	asked           // passive: the program has to accept or to refuse
	begun           // Connect or Accept was called
	connected       // data may flow
	over            // was connected, or refused
	closed
)

var phaseNames = [...]string{"idle", "listening", "with an address", "with a route", "asked", "connecting", "connected", "over", "closed"}

// String says what the phase is.
func (p phase) String() string { return phaseNames[p] }

// An ID is one thing that a program does: it listens, or it is one end of a
// connection. Close gives it up.
type ID struct {
	ch    *Channel
	space PortSpace
	user  any

	// The lock of the agent guards these.
	phase phase
	local netip.AddrPort
	peer  netip.AddrPort
	l     *conn.Listener
	c     *conn.Conn
	qp    *verbs.QP
	own   bool // the queue pair is ours to destroy
	psn   roce.PSN
	said  conn.Side // of our queue pair, to the peer
}

// NewID makes an ID whose events go to c. The user value comes back with
// [ID.User].
func (c *Channel) NewID(space PortSpace, user any) (*ID, error) {
	if space != TCP && space != UDP && space != IB {
		return nil, invalid("port space %#x, want TCP, UDP or IB", uint16(space))
	}
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("event channel: %w", EBADF)
	}
	return c.newID(space, user), nil
}

func (c *Channel) newID(space PortSpace, user any) *ID {
	id := &ID{ch: c, space: space, user: user, local: netip.AddrPortFrom(c.a.dev.Addr(), 0)}
	c.ids[id] = true
	return id
}

// User returns what NewID was given. An ID that a ConnectRequest brings has that
// of the listener.
func (i *ID) User() any { return i.user }

// Channel returns where the events of the ID go.
func (i *ID) Channel() *Channel { return i.ch }

// LocalAddr returns the address and the port of our side. The port is 0 until
// Listen or ResolveAddr.
func (i *ID) LocalAddr() netip.AddrPort {
	i.ch.a.mu.Lock()
	defer i.ch.a.mu.Unlock()
	return i.local
}

// PeerAddr returns the address and the port of the peer, if there is one.
func (i *ID) PeerAddr() netip.AddrPort {
	i.ch.a.mu.Lock()
	defer i.ch.a.mu.Unlock()
	return i.peer
}

// QP returns the queue pair, or nil.
func (i *ID) QP() *verbs.QP {
	i.ch.a.mu.Lock()
	defer i.ch.a.mu.Unlock()
	return i.qp
}

// lock locks the agent and checks that the ID is in one of the phases.
func (i *ID) lock(what string, in ...phase) error {
	i.ch.a.mu.Lock()
	for _, p := range in {
		if i.phase == p {
			return nil
		}
	}
	err := fmt.Errorf("%s: an ID that is %v: %w", what, i.phase, EINVAL)
	if i.phase == closed {
		err = fmt.Errorf("%s: ID: %w", what, EBADF)
	}
	i.ch.a.mu.Unlock()
	return err
}

// service returns the service of a port.
func (i *ID) service(port uint16) mad.ServiceID { return mad.Service(mad.PortSpace(i.space), port) }

// someone is the first port of those that nobody chooses.
const someone = 49152

// Listen waits for peers that ask for a port: each is a ConnectRequest. The
// address is that of the device or not specified; port 0 stands for one that is
// free. The backlog is how many peers may wait to be accepted; the rest is
// refused. EADDRINUSE: another ID listens there.
func (i *ID) Listen(addr netip.AddrPort, backlog int) error {
	if err := i.lock("listen", idle); err != nil {
		return err
	}
	a := i.ch.a
	defer a.mu.Unlock()
	if ip := addr.Addr().Unmap(); addr.Addr().IsValid() && !ip.IsUnspecified() && ip != a.dev.Addr() {
		return fmt.Errorf("listen on %v: the device has %v: %w", addr, a.dev.Addr(), EADDRNOTAVAIL)
	}
	ip := addr.Addr()
	if !ip.IsValid() {
		ip = netip.IPv6Unspecified()
	}
	port, tries := addr.Port(), 1
	if port == 0 {
		port, tries = uint16(someone+rand.IntN(1<<16-someone)), 1<<16-someone
	}
	for n := range tries {
		at := port
		if addr.Port() == 0 {
			at = someone + (port-someone+uint16(n))%(1<<16-someone)
		}
		l, err := a.machine.Listen(i.service(at), ip, backlog)
		if err == nil {
			l.Owner = i
			i.l, i.phase, i.local = l, listening, netip.AddrPortFrom(a.dev.Addr(), at)
			return nil
		}
	}
	return fmt.Errorf("listen on %v: %w", addr, EADDRINUSE)
}

// ResolveAddr names the peer: its address, and the port that it listens on.
// AddrResolved follows, or AddrError when the device cannot reach the address.
func (i *ID) ResolveAddr(peer netip.AddrPort) error {
	if err := i.lock("resolve an address", idle, resolved, routed); err != nil {
		return err
	}
	a := i.ch.a
	defer a.mu.Unlock()
	ip := peer.Addr().Unmap()
	if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.Is4() != a.dev.Addr().Is4() {
		i.ch.push(Event{Type: AddrError, ID: i,
			Err: fmt.Errorf("reach %v from %v: %w", peer, a.dev.Addr(), EADDRNOTAVAIL)})
		return nil
	}
	i.phase, i.peer = resolved, netip.AddrPortFrom(ip, peer.Port())
	i.local = netip.AddrPortFrom(a.dev.Addr(), uint16(someone+rand.IntN(1<<16-someone)))
	i.ch.push(Event{Type: AddrResolved, ID: i})
	return nil
}

// ResolveRoute prepares for Connect. RouteResolved follows: the network finds the
// way by itself.
func (i *ID) ResolveRoute() error {
	if err := i.lock("resolve a route", resolved, routed); err != nil {
		return err
	}
	defer i.ch.a.mu.Unlock()
	i.phase = routed
	i.ch.push(Event{Type: RouteResolved, ID: i})
	return nil
}

// CreateQP makes the queue pair of the ID, in state INIT; one of type UD is
// ready at once. It is destroyed when the ID is closed.
func (i *ID) CreateQP(pd *verbs.PD, init verbs.QPInit) (*verbs.QP, error) {
	if err := i.lock("make a queue pair", idle, resolved, routed, asked); err != nil {
		return nil, err
	}
	defer i.ch.a.mu.Unlock()
	if i.qp != nil {
		return nil, invalid("an ID has one queue pair")
	}
	if pd.Device() != i.ch.a.dev {
		return nil, invalid("protection domain of another device")
	}
	if datagrams := init.Type == verbs.UD; datagrams != (i.space == UDP) || init.Type == verbs.GSI {
		return nil, invalid("queue pair of type %d in port space %#x", init.Type, uint16(i.space))
	}
	q, err := pd.CreateQP(init)
	if err != nil {
		return nil, err
	}
	i.qp, i.own = q, true
	if err := i.prepare(init.Type); err != nil {
		i.qp = nil
		_ = q.Destroy() // nothing was posted
		return nil, err
	}
	return q, nil
}

// Close gives the ID up: a connection ends, a request is refused, a listener
// listens no more, and those that it had not told yet are refused. The queue pair
// that CreateQP made is destroyed. EBUSY: a peer has not taken all its packets;
// Destroy it again.
func (i *ID) Close() error {
	a := i.ch.a
	a.mu.Lock()
	if i.phase == closed {
		a.mu.Unlock()
		return fmt.Errorf("ID: %w", EBADF)
	}
	q := i.qp
	own := i.own
	i.end()
	i.ch.drop(i)
	if a.err == nil {
		a.settle()
	}
	a.mu.Unlock()
	if q == nil || !own {
		return nil
	}
	return q.Destroy()
}

// end closes what an ID has, but for its queue pair. The caller holds the lock
// of the agent.
func (i *ID) end() {
	i.phase = closed
	delete(i.ch.ids, i)
	if i.l != nil {
		i.l.Close()
	}
	if i.c != nil {
		i.c.Owner = nil
		i.c.Close(instant())
	}
	i.fail()
	i.c, i.l = nil, nil
}
