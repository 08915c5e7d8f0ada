package syncevent

import (
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

func TestAnEventNeedsAPublisherAndASubscriber(t *testing.T) {
	d := openDevice(t)
	e, _ := New()
	want(t, "neither", e.Start(), core.ErrInvalidValue)
	want(t, "publisher", e.AddPublisher(CPU, d), nil)
	want(t, "no subscriber", e.Start(), core.ErrInvalidValue)
	want(t, "subscriber", e.AddSubscriber(CPU, d), nil)
	want(t, "both", e.Start(), nil)
	want(t, "destroy", e.Destroy(), nil)
}

func TestRemoteLocationsAloneNeedADevice(t *testing.T) {
	e, _ := New()
	want(t, "publisher", e.AddPublisher(RemotePCI, nil), nil)
	want(t, "subscriber", e.AddSubscriber(RemotePCI, nil), nil)
	want(t, "start", e.Start(), core.ErrInvalidValue)
	want(t, "destroy", e.Destroy(), nil)
}

func TestLocationsAreChecked(t *testing.T) {
	d := openDevice(t)
	e, _ := New()
	for _, c := range []struct {
		l    Location
		want error
	}{
		{RemoteNet, core.ErrNotSupported}, {DPA, core.ErrNotSupported}, {GPU, core.ErrNotSupported},
		{GPU + 1, core.ErrInvalidValue}, {CPU, core.ErrInvalidValue}, {RemotePCI, nil}, {RemotePCI, core.ErrAlreadyExists},
	} {
		want(t, "publisher "+c.l.String(), e.AddPublisher(c.l, nil), c.want)
		want(t, "subscriber "+c.l.String(), e.AddSubscriber(c.l, nil), c.want)
	}
	want(t, "cpu", e.AddPublisher(CPU, d), nil)
	want(t, "cpu again", e.AddPublisher(CPU, d), core.ErrAlreadyExists)
	want(t, "destroy", e.Destroy(), nil)
	want(t, "destroyed", e.AddPublisher(CPU, d), core.ErrBadState)
}

func TestAnEventKeepsItsDeviceOpen(t *testing.T) {
	d := openDevice(t)
	e := newEvent(t, d)
	want(t, "close", d.Close(), core.ErrInUse)
	want(t, "destroy", e.Destroy(), nil)
}

func TestAStartedEventCannotBeChanged(t *testing.T) {
	d := openDevice(t)
	e := newEvent(t, d)
	want(t, "start", e.Start(), nil)
	want(t, "start again", e.Start(), core.ErrBadState)
	want(t, "publisher", e.AddPublisher(RemotePCI, nil), core.ErrBadState)
	want(t, "subscriber", e.AddSubscriber(RemotePCI, nil), core.ErrBadState)
	want(t, "address", e.SetAddr(new(atomic.Uint64)), core.ErrBadState)
	want(t, "buf", e.SetBuf(nil), core.ErrBadState)
	_, err := e.AsContext()
	want(t, "as context", err, core.ErrBadState)
	want(t, "stop", e.Stop(), nil)
	want(t, "stop again", e.Stop(), nil)
	_, err = e.AsContext()
	want(t, "as context, once it was started alone", err, core.ErrBadState)
	want(t, "destroy", e.Destroy(), nil)
	want(t, "destroy again", e.Destroy(), core.ErrBadState)
	want(t, "start", e.Start(), core.ErrBadState)
}

func TestAContextStartsAndStopsAsOne(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	want(t, "start", r.Start(), core.ErrBadState)
	want(t, "stop", r.Stop(), core.ErrBadState)
	want(t, "destroy", r.Destroy(), core.ErrBadState)
	again, err := r.AsContext()
	want(t, "as context", err, nil)
	equal(t, "context", again, r.life)
}

func TestANilEventIsInvalid(t *testing.T) {
	var e *Event
	want(t, "publisher", e.AddPublisher(CPU, nil), core.ErrInvalidValue)
	want(t, "subscriber", e.AddSubscriber(CPU, nil), core.ErrInvalidValue)
	want(t, "address", e.SetAddr(nil), core.ErrInvalidValue)
	want(t, "buf", e.SetBuf(nil), core.ErrInvalidValue)
	want(t, "start", e.Start(), core.ErrInvalidValue)
	want(t, "stop", e.Stop(), core.ErrInvalidValue)
	want(t, "destroy", e.Destroy(), core.ErrInvalidValue)
	want(t, "set", e.Set(1), core.ErrInvalidValue)
	want(t, "wait", e.Wait(soon(t), Equal, 0, all), core.ErrInvalidValue)
	_, err := e.Get()
	want(t, "get", err, core.ErrInvalidValue)
	_, err = e.Add(1)
	want(t, "add", err, core.ErrInvalidValue)
	_, err = e.AsContext()
	want(t, "as context", err, core.ErrInvalidValue)
	_, err = e.AllocGet()
	want(t, "alloc get", err, core.ErrInvalidValue)
	_, err = e.AllocNotifySet(1)
	want(t, "alloc set", err, core.ErrInvalidValue)
	_, err = e.AllocNotifyAdd(1)
	want(t, "alloc add", err, core.ErrInvalidValue)
	_, err = e.AllocWait(Equal, 1, all)
	want(t, "alloc wait", err, core.ErrInvalidValue)
	want(t, "configure get", e.ConfigureGet(nil, nil, 1), core.ErrInvalidValue)
	want(t, "configure set", e.ConfigureNotifySet(nil, nil, 1), core.ErrInvalidValue)
	want(t, "configure add", e.ConfigureNotifyAdd(nil, nil, 1), core.ErrInvalidValue)
	want(t, "configure wait", e.ConfigureWait(Equal, nil, nil, 1), core.ErrInvalidValue)
	want(t, "supported", Supported(nil), core.ErrInvalidValue)
}

func TestTheValueCanBeAtAnAddress(t *testing.T) {
	d := openDevice(t)
	var v atomic.Uint64
	v.Store(7)
	a, b := addressed(t, d, &v), addressed(t, d, &v)
	want(t, "nil", a.SetAddr(nil), core.ErrInvalidValue)
	want(t, "start", a.Start(), nil)
	want(t, "start", b.Start(), nil)
	old, err := a.Add(3)
	want(t, "add", err, nil)
	equal(t, "old", old, 7)
	want(t, "another event sees it", b.Wait(soon(t), Equal, 10, all), nil)
	want(t, "destroy", a.Destroy(), nil)
	want(t, "destroy", b.Destroy(), nil)
	equal(t, "the caller's value", v.Load(), 10)
}

func TestTheValueCanBeInABuf(t *testing.T) {
	d := openDevice(t)
	m, b := bufOver(t, make([]byte, 64), mem.LocalReadWrite)
	e := newEvent(t, d)
	want(t, "set the buf", e.SetBuf(b), nil)
	want(t, "device not in the map", e.Start(), core.ErrNotPermitted)
	want(t, "stop the map", m.Stop(), core.ErrNotPermitted)

	want(t, "elsewhere", e.SetAddr(new(atomic.Uint64)), nil)
	_, err := b.Unref()
	want(t, "unref", err, nil)
	want(t, "stop the map", m.Stop(), nil)
	want(t, "device", m.AddDevice(d), nil)
	want(t, "start the map", m.Start(), nil)
	b = take(t, m, 8, 8)
	want(t, "set the buf", e.SetBuf(b), nil)
	_, err = b.Unref()
	want(t, "the event has a loan of the buf", err, nil)
	want(t, "stop the map", m.Stop(), core.ErrNotPermitted)
	want(t, "start", e.Start(), nil)
	want(t, "set", e.Set(0x0101010101010101), nil)
	equal(t, "byte 7", m.Bytes()[7], 0)
	equal(t, "byte 8", m.Bytes()[8], 1)
	equal(t, "byte 15", m.Bytes()[15], 1)
	equal(t, "byte 16", m.Bytes()[16], 0)
	want(t, "destroy", e.Destroy(), nil)
	want(t, "stop the map", m.Stop(), nil)
	want(t, "destroy the map", m.Destroy(), nil)
}

// bufOver makes a started map over region and a buf of its first 8 bytes.
func bufOver(t *testing.T, region []byte, a mem.Access) (*mem.Map, *mem.Buf) {
	t.Helper()
	m, err := mem.NewMap()
	want(t, "map", err, nil)
	want(t, "range", m.SetRange(region), nil)
	want(t, "access", m.SetAccess(a), nil)
	want(t, "start the map", m.Start(), nil)
	return m, take(t, m, 0, 8)
}

// take returns a buf with n bytes of data, off bytes into m.
func take(t *testing.T, m *mem.Map, off mem.Addr, n int) *mem.Buf {
	t.Helper()
	inventory, err := mem.NewInventory(1)
	want(t, "inventory", err, nil)
	want(t, "start the inventory", inventory.Start(), nil)
	base, _, err := m.Range()
	want(t, "range", err, nil)
	b, err := inventory.ByData(m, base+off, n)
	want(t, "buf", err, nil)
	return b
}

func TestBufsAreChecked(t *testing.T) {
	e := newEvent(t, openDevice(t))
	m, b := bufOver(t, make([]byte, 64), mem.LocalReadWrite)
	_, poor := bufOver(t, make([]byte, 64), mem.LocalReadOnly)
	want(t, "nil", e.SetBuf(nil), core.ErrInvalidValue)
	want(t, "short", e.SetBuf(take(t, m, 0, 4)), core.ErrNotPermitted)
	want(t, "long", e.SetBuf(take(t, m, 0, 16)), core.ErrNotPermitted)
	want(t, "odd", e.SetBuf(take(t, m, 4, 8)), core.ErrInvalidValue)
	want(t, "read only", e.SetBuf(poor), core.ErrNotPermitted)
	want(t, "good", e.SetBuf(b), nil)

	list := take(t, m, 8, 8)
	want(t, "chain", list.Chain(take(t, m, 16, 8)), nil)
	want(t, "list", e.SetBuf(list), core.ErrInvalidValue)
	gone := take(t, m, 8, 8)
	_, err := gone.Unref()
	want(t, "unref", err, nil)
	want(t, "returned", e.SetBuf(gone), core.ErrBadState)
	want(t, "destroy", e.Destroy(), nil)
	equal(t, "lent", b.Lent(), false)
}
