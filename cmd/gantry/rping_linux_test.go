package main

import (
	"strings"
	"testing"
)

func TestRpingOverIPv6(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"gantry rping -s -P -V -a fd00:61::1 2>server.err & server=$!\nawaits $server server.err waiting\n" +
			"gantry rping -c -V -a fd00:61::1 --addr fd00:61::2 -C 50 -S 20000 && gantry rping -c -V -a fd00:61::1 --addr fd00:61::2 -C 5\n" +
			"client=$?; kill -INT $server; wait $server; [ $? = 1 ] && [ $client = 0 ]", "2 clients, of which 0 failed: 55 pings of 20000 bytes"},
		{"gantry rping --loop --addr ::1 -V -C 100", "100 pings of 64 bytes"},
		{"! gantry rping -c -a fd00:61::1", "fd00:61::1 is an address of this same machine"},
		{"! gantry rping -c -a 192.0.2.1", "there is no way to 192.0.2.1"},
	} {
		if out, err := inNamespace(t, c.script); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", c.script, err, out)
		}
	}
}

// A client that is killed, and one that stands still, can leave no word: the
// server says so when their time is over, and goes on.
func TestRpingClientsAreKilled(t *testing.T) {
	out, err := inNamespace(t, `
gantry rping -s -P -V -v -a 127.0.0.81 --timeout 700ms >server.out 2>server.err & server=$!
awaits $server server.err waiting
gantry rping -c -V -a 127.0.0.81 --addr 127.0.0.82 >/dev/null 2>&1 & killed=$!
gantry rping -c -V -a 127.0.0.81 --addr 127.0.0.83 >/dev/null 2>&1 & frozen=$!
awaits $server server.out 'rdma-ping-5: ' 2
kill -KILL $killed; kill -STOP $frozen
gantry rping -c -V -a 127.0.0.81 --addr 127.0.0.84 -C 20 || exit 1
awaits $server server.err 'after .* pings: ' 2
kill -KILL $frozen
gantry rping -c -V -a 127.0.0.81 --addr 127.0.0.84 -C 20 || exit 1
kill -INT $server; wait $server; tail -1 server.out; cat server.err`)
	if err != nil || !strings.Contains(out, "4 clients, of which 2 failed: ") || !strings.Contains(out, ", all verified\n") {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{"gantry: client 127.0.0.82:", "gantry: client 127.0.0.83:"} {
		if _, after, found := strings.Cut(out, want); !found || !strings.Contains(strings.SplitN(after, "\n", 2)[0], "look whether it still runs") {
			t.Errorf("no word of %q in %s", want, out)
		}
	}
}
