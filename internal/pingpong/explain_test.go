package pingpong

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// Which message has failed is told as far as it is known.
func TestAFailureNamesTheMessagesThatMayBeMeant(t *testing.T) {
	for _, c := range []struct {
		sent, posted int
		want         string
	}{{0, 1, "message 1: "}, {3, 4, "message 4: "}, {0, 4, "one of messages 1 to 4: "}, {16, 18, "one of messages 17 to 18: "}} {
		g := &game{e: &end{test: NewTest(verbs.RC)}, sent: c.sent, posted: c.posted}
		err := g.failed(&verbs.WC{ID: sendID, Status: verbs.WCRemAccessErr})
		if !errors.Is(err, rendezvous.ErrPeer) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%d of %d messages are complete: got %v, want %q first", c.sent, c.posted, err, c.want)
		}
	}
}

// A message without a completion has one when it fails.
func TestAMessageWithoutACompletionFailsAsOthersDo(t *testing.T) {
	test := NewTest(verbs.RC)
	test.Addr, test.Moderation, test.AckTimeout = ours, 16, 8
	_, err := Client(t.Context(), test, hostile(t, string(Dest{QPN: 1, GID: verbs.GIDOf(theirs)}.Append(nil)), false), Told{})
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EADDRINUSE) {
		t.Skip(err)
	}
	if want := "message 1: "; !errors.Is(err, rendezvous.ErrLost) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q first", err, want)
	}
}
