package roce

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestPSNFollowsItsNaiveTwin compares PSN arithmetic with walking round the
// circle in 64 bits.
func TestPSNFollowsItsNaiveTwin(t *testing.T) {
	const circle = 1 << 24
	rapid.Check(t, func(t *rapid.T) {
		// Numbers near the wrap and near half way are drawn more often.
		p := NewPSN(rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(circle-4, circle+4), rapid.Uint32Range(circle/2-4, circle/2+4)).Draw(t, "p"))
		n := rapid.OneOf(rapid.IntRange(-1<<23, 1<<23-1), rapid.IntRange(-4, 4), rapid.Just(1<<23-1), rapid.Just(-1<<23)).Draw(t, "n")

		sum := int64(p) + int64(n)
		sum = (sum%circle + circle) % circle
		q := p.Add(n)
		if int64(q) != sum {
			t.Fatalf("%d.Add(%d): got %d, want %d", p, n, q, sum)
		}
		if got := q.Sub(p); got != n {
			t.Fatalf("%d.Sub(%d): got %d, want %d", q, p, got, n)
		}
		back := -n
		if n == -1<<23 {
			back = n // half way round, both are before the other
		}
		if got := p.Sub(q); got != back {
			t.Fatalf("%d.Sub(%d): got %d, want %d", p, q, got, back)
		}
		if got := p.Next(); got != p.Add(1) || got.Sub(p) != 1 || got >= circle {
			t.Fatalf("%d.Next(): got %d", p, got)
		}
	})
}

func TestPSNSubIgnoresWhatIsAbove24Bits(t *testing.T) {
	if got := PSN(0xff000001).Sub(PSN(0x12ffffff)); got != 2 {
		t.Errorf("got %d, want 2", got)
	}
	if MaxPSNWindow != PSN(0).Add(MaxPSNWindow).Sub(0) {
		t.Error("the largest window is too large for Sub")
	}
}

func TestMTUIsOneOfFive(t *testing.T) {
	for want, bytes := range []int{0, 256, 512, 1024, 2048, 4096} {
		m, ok := MTUOf(bytes)
		if m != MTU(want) || ok != (want > 0) || m.Bytes() != bytes || m.Valid() != ok || ok && m.String() != strconv.Itoa(bytes) {
			t.Errorf("got %d %v of %d bytes, want %d", m, ok, m.Bytes(), want)
		}
	}
	for _, bytes := range []int{-1, 1, 255, 257, 1500, 8192} {
		if m, ok := MTUOf(bytes); ok {
			t.Errorf("got MTU %v for %d bytes", m, bytes)
		}
	}
	if MTU(6).Valid() || MTU(6).Bytes() != 0 || MTU(6).String() != "invalid MTU" || MTU2048.String() != "2048" {
		t.Error("MTU 6 is not refused")
	}
}

func TestMTUForLinkKeepsRoomForHeaders(t *testing.T) {
	for bytes, want := range map[int]MTU{
		0: MTU256, 68: MTU256, 335: MTU256, 336: MTU256, 591: MTU256, 592: MTU512, 1103: MTU512, 1104: MTU1024,
		1500: MTU1024, 2127: MTU1024, 2128: MTU2048, 4175: MTU2048, 4176: MTU4096, 9000: MTU4096, 65536: MTU4096,
	} {
		if got := MTUForLink(bytes); got != want {
			t.Errorf("link of %d: got %v, want %v", bytes, got, want)
		}
	}
}

func TestPacketsOfAMessage(t *testing.T) {
	for m := MTU256; m <= MTU4096; m++ {
		size := m.Bytes()
		for n, want := range map[int]int{0: 1, 1: 1, size - 1: 1, size: 1, size + 1: 2, 2 * size: 2, 2*size + 1: 3, 1 << 30: 1 << 30 / size} {
			if got := m.Packets(n); got != want {
				t.Errorf("MTU %v: got %d packets for %d bytes, want %d", m, got, n, want)
			}
		}
	}
	if MTU(0).Packets(5000) != 1 || MTU1024.Packets(-1) != 1 {
		t.Error("nonsense is not one packet")
	}
}

func TestSyndromesSayWhatTheyAre(t *testing.T) {
	for s, want := range map[Syndrome]string{
		0x00: "ACK/0", 0x01: "ACK/1", 0x05: "ACK/6", 0x09: "ACK/24", 0x1e: "ACK/32768", AckUnlimited: "ACK",
		0x20: "RNR_NAK/655360us", 0x21: "RNR_NAK/10us", 0x2c: "RNR_NAK/640us", 0x3f: "RNR_NAK/491520us",
		0x40: "reserved/0x40", 0x5f: "reserved/0x5f", 0x80: "reserved/0x80", 0xe0: "reserved/0xe0",
		NakSequence: "NAK/sequence", NakInvalidRequest: "NAK/invalid_request", NakRemoteAccess: "NAK/remote_access",
		NakRemoteOperational: "NAK/remote_operational", NakInvalidRD: "NAK/invalid_rd", 0x65: "NAK/0x65", 0x7f: "NAK/0x7f",
	} {
		if got := s.String(); got != want {
			t.Errorf("%#x: got %s, want %s", uint8(s), got, want)
		}
	}
}

func TestTopBitOfASyndromeIsReserved(t *testing.T) {
	for s := range 256 {
		want := map[int]SyndromeKind{0: KindAck, 1: KindRNRNak, 3: KindNak}[s>>5]
		if s >= 0x80 || s>>5 == 2 {
			want = KindReserved
		}
		if got := Syndrome(s).Kind(); got != want {
			t.Errorf("%#x: got kind %d, want %d", s, got, want)
		}
	}
}

func TestCreditsNeverPromiseMoreThanThereAre(t *testing.T) {
	for n := range 40000 {
		s := AckCredits(n)
		got, ok := s.Credits()
		if !ok || got > n {
			t.Fatalf("got %d credits (%v) for %d", got, ok, n)
		}
		if next, ok := (s + 1).Credits(); ok && next <= n {
			t.Fatalf("got %d credits for %d, want %d", got, n, next)
		}
	}
	if s := AckCredits(-1); s != 0 {
		t.Errorf("got %v for -1 credits, want ACK/0", s)
	}
	for _, s := range []Syndrome{AckUnlimited, NakSequence, RNRNak(3), 0x45, 0x85} {
		if n, ok := s.Credits(); ok {
			t.Errorf("%v: got %d credits", s, n)
		}
	}
}

// TestRNRTimerNeverWaitsLess: a requester waits at least as long as asked.
func TestRNRTimerNeverWaitsLess(t *testing.T) {
	for code := range RNRTimer(32) {
		us := code.Microseconds()
		if got := RNRTimerFor(us); got != code {
			t.Errorf("got code %d for %d us, want %d", got, us, code)
		}
		if got := RNRTimerFor(us + 1); code != 0 && got.Microseconds() <= us {
			t.Errorf("got %d us for %d", got.Microseconds(), us+1)
		}
		if got := RNRNak(code); got.Kind() != KindRNRNak || got.RNRTimer() != code {
			t.Errorf("got %v for code %d", got, code)
		}
		if code.Nanoseconds() != int64(us)*1000 {
			t.Errorf("got %d ns for %d us", code.Nanoseconds(), us)
		}
	}
	// From code 2 on the times double every second step.
	for code := RNRTimer(4); code < 32; code++ {
		if got, want := code.Microseconds(), 2*(code-2).Microseconds(); got != want {
			t.Errorf("code %d: got %d us, want %d", code, got, want)
		}
	}
	if RNRTimerFor(0) != 1 || RNRTimerFor(-5) != 1 || RNRTimerFor(1<<30) != 0 {
		t.Error("times outside of the table do not get the nearest code")
	}
}
