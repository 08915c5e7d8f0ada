package comch

import (
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

func TestCapabilitiesNeedADeviceWithTheChannel(t *testing.T) {
	r := newRig(t)
	infos, err := device.List()
	r.want("list", err, nil)
	r.want("server on the DPU", ServerSupported(r.dpu.Info()), nil)
	r.want("server on the host", ServerSupported(r.host.Info()), core.ErrNotSupported)
	r.want("server on an interface", ServerSupported(infos[0]), core.ErrNotSupported)
	r.want("client on the DPU", ClientSupported(r.dpu.Info()), core.ErrNotSupported)
	r.want("client on the host", ClientSupported(r.host.Info()), nil)
	r.want("server on nothing", ServerSupported(nil), core.ErrInvalidValue)
	r.want("client on nothing", ClientSupported(nil), core.ErrInvalidValue)
	for what, f := range map[string]func(*device.Info) (uint32, error){
		"name": MaxNameLen, "message": MaxMessage, "queue": MaxRecvQueue, "tasks": MaxSendTasks, "clients": MaxClients,
	} {
		n, err := f(r.dpu.Info())
		r.want(what, err, nil)
		_, err = f(infos[0])
		r.want(what+" of an interface", err, core.ErrNotSupported)
		if n == 0 {
			t.Errorf("%s: the limit is 0", what)
		}
	}
}

func TestWhatCannotBeMade(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"", strings.Repeat("n", maxNameLen), "a\x00b"} {
		_, err := NewServer(r.dpu, r.rep, name)
		r.want("server", err, core.ErrInvalidValue)
		_, err = NewClient(r.host, name)
		r.want("client", err, core.ErrInvalidValue)
	}
	_, err := NewServer(nil, r.rep, "n")
	r.want("no device", err, core.ErrInvalidValue)
	_, err = NewServer(r.dpu, nil, "n")
	r.want("no representor", err, core.ErrInvalidValue)
	_, err = NewServer(r.host, r.rep, "n")
	r.want("a representor of another device", err, core.ErrInvalidValue)
	_, err = NewClient(nil, "n")
	r.want("no device", err, core.ErrInvalidValue)
	_, err = NewClient(r.dpu, "n")
	r.want("a client on the DPU", err, core.ErrNotSupported)

	s, c := r.pair(1, 1) // and names as long as they can be
	c.shut()
	s.shut()
	long := strings.Repeat("n", maxNameLen-1)
	s, c = r.server(r.engines[0], long, 1), r.client(r.engines[0], long, 1)
	r.join(s, c)
	c.shut()
	s.shut()
}

func TestSettingsAreCheckedAndForIdleContexts(t *testing.T) {
	r := newRig(t)
	r.engine()
	s, c := r.server(r.engines[0], t.Name(), 1), r.client(r.engines[0], t.Name(), 1)
	nop := func(*Send) {}
	check := func(when string, code error) {
		t.Helper()
		for _, k := range []*control{&s.control, &c.control} {
			r.want(when+" message", k.SetMaxMessage(100), code)
			r.want(when+" queue", k.SetRecvQueue(100), code)
			r.want(when+" send", k.ConfigureSend(nop, nop, 1), code)
			r.want(when+" message function", k.SetMessageFunc(func(*Connection, []byte) {}), code)
			r.want(when+" consumer functions", k.SetConsumerFuncs(func(*Connection, uint16) {}, func(*Connection, uint16) {}), code)
		}
		r.want(when+" connection functions", s.SetConnectionFuncs(s.onConnect, s.onDisconnect), code)
	}
	for _, n := range []int{-1, 0, 1 << 20} {
		r.want("message", s.SetMaxMessage(n), core.ErrInvalidValue)
		r.want("queue", s.SetRecvQueue(n), core.ErrInvalidValue)
		r.want("tasks", s.ConfigureSend(nop, nop, n), core.ErrInvalidValue)
	}
	r.want("tasks", s.ConfigureSend(nil, nop, 1), core.ErrInvalidValue)
	r.want("message function", s.SetMessageFunc(nil), core.ErrInvalidValue)
	r.want("consumer functions", s.SetConsumerFuncs(nil, nil), core.ErrInvalidValue)
	r.want("connection functions", s.SetConnectionFuncs(nil, nil), core.ErrInvalidValue)
	if s.MaxMessage() != defaultMessage || s.RecvQueue() != defaultRecvQueue {
		t.Errorf("the defaults are %d and %d", s.MaxMessage(), s.RecvQueue())
	}
	check("idle", nil)
	r.join(s, c)
	check("running", core.ErrBadState)
	c.shut()
	s.shut()
}

func TestTheSmallerMessageCounts(t *testing.T) {
	r := newRig(t)
	r.engine()
	s, c := r.server(r.engines[0], t.Name(), 2), r.client(r.engines[0], t.Name(), 2)
	r.want("message", s.SetMaxMessage(maxMessage), nil)
	r.want("message", c.SetMaxMessage(100), nil)
	r.join(s, c)
	for _, x := range []*end{&s.end, &c.end} {
		if n := x.link.MaxMessage(); n != 100 {
			t.Errorf("messages have up to %d bytes, want 100", n)
		}
		r.want("too long", x.send(strings.Repeat("m", 101)), core.ErrInvalidValue)
		r.want("just right", x.send(strings.Repeat("m", 100)), nil)
		task, err := x.k.AllocSend(x.link, nil)
		r.want("alloc", err, nil)
		r.want("too long", task.SetMessage(make([]byte, 101)), core.ErrInvalidValue)
		r.want("again", task.SetMessage([]byte("again")), nil)
		r.want("try", task.TrySubmit(), nil)
		r.want("in flight", task.SetMessage(nil), core.ErrBadState)
	}
	r.until("came", func() bool { return len(s.got) == 2 && len(c.got) == 2 })
	_, err := s.AllocSend(nil, nil)
	r.want("no connection", err, core.ErrInvalidValue)
	_, err = s.AllocSend(c.link, nil)
	r.want("another's connection", err, core.ErrInvalidValue)
	if s.link.Server() != s.Server || s.link.Client() != nil || c.link.Client() != c.Client || c.link.Server() != nil {
		t.Error("a connection does not know whose it is")
	}
	c.shut()
	s.shut()
}

func TestTheLargestMessages(t *testing.T) {
	r := newRig(t)
	r.engine()
	s, c := r.server(r.engines[0], t.Name(), 8), r.client(r.engines[0], t.Name(), 8)
	for _, k := range []*control{&s.control, &c.control} {
		r.want("message", k.SetMaxMessage(maxMessage), nil)
	}
	r.join(s, c)
	for range 8 { // more than there is memory for
		r.want("send", c.send(strings.Repeat("m", maxMessage)), nil)
		r.want("send", s.send(strings.Repeat("m", maxMessage)), nil)
	}
	r.until("came", func() bool { return len(s.got) == 8 && len(c.got) == 8 })
	c.shut()
	s.shut()
}

func TestStartNeedsWhatIsMandatory(t *testing.T) {
	r := newRig(t)
	e := r.engine()
	s, err := NewServer(r.dpu, r.rep, t.Name())
	r.want("server", err, nil)
	r.want("without an engine", s.Start(), core.ErrNotConnected)
	r.want("connect", e.Connect(&s.Context), nil)
	r.want("without tasks", s.Start(), core.ErrInitialization)
	nop := func(*Send) {}
	r.want("tasks", s.ConfigureSend(nop, nop, 1), nil)
	r.want("without a message function", s.Start(), core.ErrInitialization)
	r.want("message function", s.SetMessageFunc(func(*Connection, []byte) {}), nil)
	r.want("without connection functions", s.Start(), core.ErrInitialization)
	r.want("destroy", s.Destroy(), nil)
}

func TestAServerThatIsFullSaysSo(t *testing.T) {
	r := newRig(t)
	r.engine()
	s, c := r.server(r.engines[0], t.Name(), 1), r.client(r.engines[0], t.Name(), 1)
	r.want("start", s.Start(), nil)
	s.mu.Lock()
	for range maxClients { // as many as there can be
		s.guests[newConnection(&s.control)] = true
	}
	s.mu.Unlock()
	c.begin()
	r.until("refused", func() bool { return c.State() == core.Idle })
	r.want("why", c.Err(), core.ErrFull)
	if n := s.Rejected(); n != 1 {
		t.Errorf("%d were rejected, want 1", n)
	}
	s.mu.Lock()
	clear(s.guests)
	s.mu.Unlock()
	c.begin()
	r.until("connected", func() bool { return c.State() == core.Running })
	c.shut()
	s.shut()
}
