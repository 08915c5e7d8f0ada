package main

import (
	"strings"
	"testing"
)

// network is two machines with a cable: this one is 198.18.0.1, and what $other
// runs is on 198.18.0.2, where the interface has a smaller MTU. Nothing that is
// sent from here to 198.18.0.4 arrives, though it is there as well.
const network = `
unshare --net sleep 100 & there=$!
other="nsenter --target $there --net"
for n in $(seq 500); do # until the other machine is another one
	[ "$(readlink /proc/$there/ns/net)" = "$(readlink /proc/self/ns/net)" ] || break
	sleep 0.01
done
ip link add near type veth peer name far && ip link set far netns $there || exit 77
ip addr add 198.18.0.1/24 dev near && ip link set near mtu 9000 up || exit 77
$other ip link set lo up && $other ip addr add 198.18.0.2/24 dev far && $other ip addr add 198.18.0.4/24 dev far || exit 77
$other ip link set far mtu 1500 up && ip neigh add 198.18.0.4 lladdr 02:00:00:00:00:99 dev near || exit 77
with() { # runs a server, and then a client
	$1 2>server.err & server=$!
	awaits $server server.err waiting
	$2 2>client.err; kill -INT $server 2>/dev/null; wait $server
}
`

// What is wrong with a network, one sentence says.
func TestANetworkThatDoesNotWorkIsOneSentence(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 10 seconds")
	}
	for _, c := range []struct{ what, server, client, want string }{
		{"port taken, rping", "gantry rping -s -a 198.18.0.1", "gantry rping -s -a 198.18.0.1",
			"address already in use: another socket has it (ss -ulnp 'sport = :4791' shows whose)"},
		{"port taken, pingpong", "gantry rping -s -a 198.18.0.1", "gantry pingpong rc --addr 198.18.0.1",
			"address already in use: another socket has it"},
		{"wrong address here", "gantry rping -s -a 198.18.0.1", "$other gantry rping -c -a 198.18.0.1 --addr 198.18.0.1",
			"no network interface of this machine has the address; --addr chooses one"},
		{"nobody there", "gantry rping -s -a 198.18.0.1", "$other gantry rping -c -a 198.18.0.7 --timeout 1s",
			"198.18.0.7:7174 has not answered for 1s: not one packet has come to UDP port 4791 of 198.18.0.2: look whether a server runs there, on 198.18.0.7"},
		{"MTU, rping", "$other gantry rping -s -a 198.18.0.2", "gantry rping -c -a 198.18.0.2",
			"the network of 198.18.0.2 carries smaller packets than that of 198.18.0.1, where the path MTU is 4096: give both interfaces the same MTU"},
		{"MTU, pingpong rc", "gantry pingpong rc -m 4096 -s 4096", "$other gantry pingpong rc -m 4096 -s 4096 198.18.0.1",
			"--mtu 4096: the network of 198.18.0.2 carries packets of at most 1024"},
		{"MTU, pingpong ud", "$other gantry pingpong ud -s 1000 --timeout 1s", "gantry pingpong ud -s 4096 198.18.0.2 --timeout 1s",
			"whether the network between carries packets of 4096 bytes"},
		{"blocked, rping", "gantry rping -s -a 198.18.0.1", "$other gantry rping -c -a 198.18.0.1 --addr 198.18.0.4 --timeout 1s",
			"not one packet has come to UDP port 4791 of 198.18.0.4: look whether a server runs there, on 198.18.0.1, and whether a firewall drops UDP port 4791"},
		{"blocked, pingpong", "gantry pingpong rc --timeout 1s", "$other gantry pingpong rc 198.18.0.1 --addr 198.18.0.4 --timeout 1s",
			"not one packet has come to UDP port 4791 of 198.18.0.4"},
		{"blocked, perf", "gantry perf --listen --addr 198.18.0.1", "$other gantry perf write_bw 198.18.0.1 --addr 198.18.0.4 -n 10",
			"198.18.0.1 does not answer any more: message 0 on queue pair 0 ended with RETRY_EXC_ERR: transport retries exceeded: " +
				"the peer does not answer: not one packet has come to UDP port 4791 of 198.18.0.4"},
		{"blocked, perf -R", "gantry perf --listen --addr 198.18.0.1", "$other gantry perf write_bw -R 198.18.0.1 --addr 198.18.0.4 -n 10",
			"198.18.0.1 does not answer: not one packet has come to UDP port 4791 of 198.18.0.4"},
		{"rewritten, rping", "gantry rping -s -a 198.18.0.1 --corrupt 0.9", "$other gantry rping -c -a 198.18.0.1 --timeout 2s",
			"packets come with a wrong ICRC (drop_icrc "},
		{"rewritten, pingpong", "gantry pingpong uc --corrupt 0.9 --timeout 1s -s 1000", "$other gantry pingpong uc 198.18.0.1 --timeout 1s -s 1000",
			"rewrites addresses, ports or contents, all of which it covers: use addresses that both ends see alike"},
	} {
		out, err := inNamespace(t, network+"with \""+c.server+"\" \""+c.client+"\"\n"+
			"kill $there; cat client.err server.err; grep -q '^gantry: .*[a-z]' client.err")
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: want %q in %s", c.what, err, c.want, out)
		}
	}
}
