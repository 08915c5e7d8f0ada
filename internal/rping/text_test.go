package rping

import (
	"strings"
	"testing"
)

// The texts are those of the original.
func TestTextsAreThoseOfTheOriginal(t *testing.T) {
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz"
	for _, c := range []struct {
		n, size int
		want    string
	}{
		{0, 64, "rdma-ping-0: " + (alphabet + alphabet)[:50] + "\x00"},
		{1, 64, "rdma-ping-1: " + (alphabet + alphabet)[1:51] + "\x00"},
		{57, 80, "rdma-ping-57: z" + alphabet[:58] + "ABCDEF\x00"},
		{58, 16, "rdma-ping-58: A\x00"},
		{1000000, 16, "rdma-ping-10000\x00"},
		{0, 16, "rdma-ping-0: AB\x00"},
	} {
		b := []byte(strings.Repeat("?", c.size))
		fill(b, c.n)
		if string(b) != c.want {
			t.Errorf("text %d of %d bytes is %q, want %q", c.n, c.size, b, c.want)
		}
	}
}

func TestAdvertIsBigEndian(t *testing.T) {
	a := advert{0x0102030405060708, 0x090a0b0c, 0x0d0e0f10}
	b := a.bytes()
	for i := range b {
		if int(b[i]) != i+1 {
			t.Fatalf("% x", b)
		}
	}
	if got := advertOf(b[:]); got != a {
		t.Errorf("got %+v, want %+v", got, a)
	}
}

func TestParameters(t *testing.T) {
	for _, c := range []struct {
		change func(*Test)
		want   string
	}{
		{func(t *Test) { t.Size = 15 }, "size 15: 16 to 65536 are possible"},
		{func(t *Test) { t.Size = 65537 }, "size 65537"},
		{func(t *Test) { t.Count = -1 }, "count -1"},
		{func(t *Test) { t.Limit = 0 }, "timeout 0s"},
	} {
		x := NewTest()
		c.change(&x)
		if err := x.Verify(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
