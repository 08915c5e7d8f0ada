package comch

import (
	"fmt"
	"testing"
)

// BenchmarkSendAndReceive is the cost of a control message of 64 bytes from
// alloc to both callbacks, with both ends on one engine.
func BenchmarkSendAndReceive(b *testing.B) {
	r := newRig(b)
	s, c := r.pair(1, 4)
	defer func() { c.shut(); s.shut() }()
	came := 0
	s.control.onMessage = func(*Connection, []byte) { came++ }
	m, e := make([]byte, 64), r.engines[0]
	for b.Loop() {
		t, err := c.AllocSend(c.link, m)
		if err != nil || t.Submit() != nil {
			b.Fatal("cannot send")
		}
		for e.Progress() {
		}
	}
	b.ReportMetric(float64(came)/float64(b.N), "messages/op")
}

// BenchmarkIdleProgress is the cost of one Progress of a server that has
// nothing to do, by the number of its clients.
func BenchmarkIdleProgress(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			r := newRig(b)
			s := r.server(r.engine(), "idle", 4)
			r.want("start", s.Start(), nil)
			var all []*clientEnd
			for range clients {
				c := r.client(r.engine(), "idle", 4)
				c.begin()
				all = append(all, c)
			}
			r.until("connected", func() bool { return len(s.conns) == clients && len(s.events) == clients })
			for b.Loop() {
				s.engine.Progress()
			}
			for _, c := range all {
				c.shut()
			}
			s.shut()
		})
	}
}
