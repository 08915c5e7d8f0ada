package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// prelude sets up the network namespace of a script, and what a script uses.
const prelude = `trap 'sleep 1' QUIT # while what it has started prints its goroutines
exec 3<&0
{ cat <&3 >/dev/null; kill -KILL 0; } & # when the test is gone
ip link set lo up &&
ip addr add fd00:61::1/128 dev lo nodad &&
ip addr add fd00:61::2/128 dev lo nodad || exit 77
play() {
	gantry pingpong $1 $2 >server.out 2>server.err & server=$!
	gantry pingpong $1 $3; client=$?
	wait $server; server=$?
	cat server.out server.err
	[ $server = 0 ] && [ $client = 0 ]
}
awaits() { # until process $1 has said in file $2, in $4 lines or 1, what $3 is
	while
		kill -0 $1 2>/dev/null; alive=$?
		lines=$(grep -cs "$3" $2)
		[ ${lines:-0} -lt ${4:-1} ]
	do
		[ $alive = 0 ] || { echo "there will be no \"$3\" in $2: its process has ended"; exit 1; }
		sleep 0.02
	done
}
`

// inNamespace runs a shell script in a network namespace of its own, whose
// loopback interface has IPv6 addresses for two devices: fd00:61::1 and
// fd00:61::2. In the script, gantry is this program, and play has the arguments
// of both ends, those of the server, and those of the client. If the script
// fails, out has its files as well.
func inNamespace(t *testing.T, script string) (out string, failed error) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "gantry"))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := child.Command(t, "unshare", "--map-root-user", "--net", "sh", "-c", prelude+script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0")
	out, late, err := inGroup(t, cmd)
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 || strings.HasPrefix(out, "unshare:") {
		t.Skipf("no network namespace of one's own: %v: %s", err, out)
	}
	if err != nil {
		out += contents(dir)
	}
	if late {
		t.Fatalf("this does not end:\n%s\n%s", script, out)
	}
	return out, err
}

// inGroup runs a script in a process group, of which nothing is left then.
func inGroup(t *testing.T, cmd *exec.Cmd) (out string, late bool, failed error) {
	t.Helper()
	file, err := os.Create(filepath.Join(cmd.Dir, "script")) // a pipe ends only with all who have it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cmd.Stdout, cmd.Stderr = file, file
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := cmd.Cancel
	cmd.Cancel = func() error {
		late = true
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGQUIT)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT) // who stands still hears it then
		return end()
	}
	if failed = cmd.Run(); cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), late, failed
}

// contents returns what the programs of a script have left in files.
func contents(dir string) string {
	var b strings.Builder
	for _, pattern := range []string{"*.out", "*.err"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range files {
			text, _ := os.ReadFile(f)
			fmt.Fprintf(&b, "\n%s:\n%s", filepath.Base(f), text)
		}
	}
	return b.String()
}

func TestPingpongOverIPv6(t *testing.T) {
	for _, service := range []string{"rc", "uc", "ud"} {
		for _, more := range []string{"-s 1", "-s 1000 -e"} {
			out, err := inNamespace(t, "play '"+service+" -c -n 100 "+more+"' '--addr fd00:61::1' 'localhost --addr fd00:61::2'")
			if err != nil || strings.Count(out, "100 messages validated") != 2 || !strings.Contains(out, "GID fd00:61::1\n") {
				t.Errorf("%s %s: %v: %s", service, more, err, out)
			}
		}
	}
	for _, mtu := range []string{"1024", "4096"} { // several packets
		out, err := inNamespace(t, "play 'rc -c -n 50 -s 20000 -m "+mtu+"' '--addr fd00:61::1' 'localhost --addr fd00:61::2'")
		if err != nil || strings.Count(out, "50 messages validated") != 2 {
			t.Errorf("MTU %s: %v: %s", mtu, err, out)
		}
	}
}

// The system completes an IPv6 address a while after it was added: here, when
// the server has begun to open its device.
func TestPingpongOverAnAddressThatIsNotComplete(t *testing.T) {
	const late = `
until ip -6 route del local fd00:61::1 dev lo table local 2>/dev/null; do sleep 0.01; done # the system has added it
{ sleep 0.3; ip -6 route add local fd00:61::1 dev lo table local; } &
`
	for _, service := range []string{"uc", "ud"} { // rc sends what is lost again
		out, err := inNamespace(t, late+"play '"+service+" -c -n 10 --timeout 5s' '--addr fd00:61::1' 'localhost --addr fd00:61::2'")
		if err != nil || strings.Count(out, "10 messages validated") != 2 {
			t.Errorf("%s: %v: %s", service, err, out)
		}
	}
}

func TestPingpongOfTwoIPVersions(t *testing.T) {
	for _, c := range []struct{ what, script, want string }{
		{"TCP over IPv6, RoCE over IPv4", "play 'rc -n 10 -c' '--addr 127.0.0.1' '::1 --addr 127.0.0.2'", "10 messages validated"},
		{"TCP over IPv4, RoCE over IPv6, one machine", "! play 'rc -n 10' '' '127.0.0.1 --addr fd00:61::2'", "the other end has fd00:61::2 on this same machine"},
		{"no addresses", "play 'rc -n 10 -c' '' '127.0.0.1'", "10 messages validated"},
		{"one of each", "! play 'rc -n 10' '--addr 127.0.0.1' '127.0.0.1 --addr fd00:61::2'", "its GID fd00:61::2 and this end's, 127.0.0.1, are of different IP versions"},
		{"one loopback address", "! play 'rc -n 10' '' '::1'", "the other end has ::1 on this same machine"},
	} {
		if out, err := inNamespace(t, c.script); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", c.what, err, out)
		}
	}
}

// An Ethernet interface has room for a path MTU of 1024.
func TestPingpongOnASmallNetwork(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"play 'rc -n 10 -c -s 5000' '--addr fd00:61::1' 'localhost --addr fd00:61::2'", "10 messages validated"},
		{"! gantry pingpong rc --loop -m 4096", "carries packets of at most 1024: choose that at both ends"},
		{"! gantry pingpong ud --loop", "carries datagrams of at most 1024 bytes"},
		{"! play 'rc -n 1 -m 4096' '--addr fd00:61::1' 'localhost --addr fd00:61::2'", "--mtu 4096: the network of fd00:61::1 carries"},
	} {
		if out, err := inNamespace(t, "ip link set lo mtu 1500\n"+c.script); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", c.script, err, out)
		}
	}
}

func TestPingpongWithoutAWayToThePeer(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"! play 'rc' '' '127.0.0.1 --addr 192.0.2.1'", "no network interface of this machine has the address; --addr chooses one"},
		// The server's address goes away before the client's first message.
		{"gantry pingpong rc --addr fd00:61::1 --timeout 300ms >server.out 2>server.err & awaits $! server.err waiting; " +
			"ip addr del fd00:61::1/128 dev lo; ! gantry pingpong rc 127.0.0.1 --addr fd00:61::2 -u 8", "the system refuses to send packets (send_err "},
	} {
		if out, err := inNamespace(t, c.script); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", c.script, err, out)
		}
	}
}
