package pingpong

import (
	"testing"
	"time"
)

// An end that is kept from looking does not take that for silence, and packets end
// it.
func TestSilenceIsWhatWasListenedTo(t *testing.T) {
	const lasts = 20 * lingerLook
	begin := time.Now()
	s := silence{lasts: lasts, last: begin, seen: 7}
	at := begin
	look := func(after time.Duration, packets uint64) bool {
		at = at.Add(after)
		return s.over(at, packets)
	}
	for i := range 19 {
		if look(time.Hour, 7) {
			t.Fatalf("it is over after %d looks, each an hour late", i+1)
		}
	}
	if look(time.Hour, 8) {
		t.Fatal("it is over with a packet")
	}
	looks := 1
	for ; !look(time.Millisecond, 8); looks++ {
		if looks > 1000 {
			t.Fatal("it is never over")
		}
	}
	if want := int(lasts / time.Millisecond); looks != want {
		t.Errorf("it is over after %d looks, want %d", looks, want)
	}
}
