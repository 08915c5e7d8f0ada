package datapath

import (
	"testing"

	"github.com/gantry-rdma/gantry/comch"
)

// An end is a server or client that keeps what it is configured with.
type end struct {
	started, expired func(*comch.Connection, uint16)
}

func (e *end) ConfigureSend(_, _ func(*comch.Send), _ int) error { return nil }
func (e *end) SetRecvQueue(int) error                            { return nil }

func (e *end) SetConsumerFuncs(started, expired func(*comch.Connection, uint16)) error {
	e.started, e.expired = started, expired
	return nil
}

// The numbers of consumers are those of a connection: a second client has the
// same ones.
func TestConsumersOfAStrangerChangeNothing(t *testing.T) {
	peer, stranger := new(comch.Connection), new(comch.Connection)
	p, e := &Path{Conn: peer}, new(end)
	if err := p.Configure(e); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		tell func(*comch.Connection, uint16)
		conn *comch.Connection
		id   uint16
		want uint16
	}{
		{e.started, stranger, 7, 0},
		{e.started, peer, 3, 3},
		{e.started, stranger, 4, 3},
		{e.expired, stranger, 3, 3},
		{e.expired, peer, 9, 3},
		{e.expired, peer, 3, 0},
	} {
		if step.tell(step.conn, step.id); p.consumer != step.want {
			t.Errorf("step %d: got consumer %d, want %d", i, p.consumer, step.want)
		}
	}
}
