package pcap

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPacketsCutsFramesOutOfAFile(t *testing.T) {
	head := []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0}
	record := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0}, make([]byte, 14)...)
	record = append(record, 7, 8)
	good := append(append(append([]byte(nil), head...), record...), record...)
	file := filepath.Join(t.TempDir(), "a.pcap")
	for _, c := range []struct {
		bytes []byte
		want  int // -1: an error
	}{{good, 2}, {head, 0}, {head[:20], -1}, {good[:len(good)-1], -1}, {good[:30], -1}, {record, -1}} {
		if err := os.WriteFile(file, c.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Packets(file)
		if err != nil != (c.want < 0) || err == nil && len(got) != c.want {
			t.Errorf("%d bytes: got %d packets, %v, want %d", len(c.bytes), len(got), err, c.want)
		}
		for _, p := range got {
			if string(p) != "\x07\x08" {
				t.Errorf("got packet %x, want 0708", p)
			}
		}
	}
	if _, err := Packets(file + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}
