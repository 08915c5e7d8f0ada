package sys

import (
	"net/netip"
	"testing"
	"time"
)

func TestTheSystemSaysWhereItDelivers(t *testing.T) {
	for _, c := range []struct {
		addr string
		want bool
	}{{"127.0.0.1", true}, {"::ffff:127.0.0.2", true}, {"::1", true}, {"2001:db8::1", false}} {
		got, err := AwaitDelivery(netip.MustParseAddr(c.addr), 20*time.Millisecond)
		if err != nil && c.want {
			t.Skipf("%s: %v", c.addr, err)
		}
		if got != c.want {
			t.Errorf("%s: got %v, want %v", c.addr, got, c.want)
		}
	}
}

func TestAnAnswerThatIsCutSaysNothing(t *testing.T) {
	for n := range 28 {
		if here, err := delivered(make([]byte, n)); here || err == nil {
			t.Errorf("%d bytes: got %v, %v, want an error", n, here, err)
		}
	}
}
