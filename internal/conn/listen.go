package conn

import (
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/mad"
)

// A Listener is a service that peers may ask for. It belongs to whoever the
// agent belongs to.
type Listener struct {
	// Owner is the program's.
	Owner any

	a       *Agent
	service mad.ServiceID
	addr    netip.Addr // unspecified: any
	backlog int
	waiting int // connections that wait for the program
}

// Listen makes a service known. REQs for it must carry the header of RDMA-CM
// and name addr, which may be unspecified. The backlog is how many connections
// may wait for the program to accept or to refuse; the rest is refused. ErrInUse:
// another listener has the service at this address.
func (a *Agent) Listen(s mad.ServiceID, addr netip.Addr, backlog int) (*Listener, error) {
	addr = addr.Unmap()
	for _, l := range a.listeners[s] {
		if l.addr == addr || l.addr.IsUnspecified() || addr.IsUnspecified() {
			return nil, ErrInUse
		}
	}
	l := &Listener{a: a, service: s, addr: addr, backlog: max(backlog, 1)}
	a.listeners[s] = append(a.listeners[s], l)
	return l, nil
}

// Close ends a service. Connections that wait for the program stay.
func (l *Listener) Close() {
	all := l.a.listeners[l.service]
	for i, x := range all {
		if x == l {
			all = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	l.a.listeners[l.service] = all
	if len(all) == 0 {
		delete(l.a.listeners, l.service)
	}
}

// listener returns who serves what a REQ or a SIDR_REQ asks for, or nil.
func (a *Agent) listener(s mad.ServiceID, private []byte) *Listener {
	all := a.listeners[s]
	if len(all) == 0 {
		return nil
	}
	cma, _, ok := mad.ParseCMA(private)
	if !ok || cma.Dst() != a.config.Addr {
		return nil
	}
	for _, l := range all {
		if l.addr == cma.Dst() || l.addr.IsUnspecified() {
			return l
		}
	}
	return nil
}
