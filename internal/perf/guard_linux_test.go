package perf

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// A wait that lasts too long ends the other process; many of them, or one in
// which something happens, do not.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g guard
		ended, acted := make(chan struct{}), make(chan struct{})
		go g.watch(answerTime, ended, func() { close(acted) })
		pass := func(d time.Duration) bool {
			select {
			case <-acted:
				return true
			case <-time.After(d):
				return false
			}
		}
		if pass(time.Hour) {
			t.Fatal("it acted where nobody waited")
		}
		for range 30 {
			if g.wait(); pass(answerTime - 2*answerTime/guardTicks) {
				t.Fatal("it acted on several waits")
			}
			g.over()
		}
		g.wait()
		for n := range 5 {
			if g.moved(n * guardStride); pass(answerTime - 2*answerTime/guardTicks) {
				t.Fatal("it acted on a wait that was not in vain")
			}
		}
		if g.moved(1); !pass(answerTime + 2*answerTime/guardTicks) {
			t.Error("it did not act on a wait in vain")
		}
		go g.watch(answerTime, ended, nil)
		close(ended)
	})
}

// sleeper is a process that says nothing.
func sleeper(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "sleep", "100") }

// A measurement ends, whatever it is at, when its other process stands still.
// Each needs answerTime for that, so all are made at once.
func TestPeersThatStandStill(t *testing.T) {
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*answerTime)
	defer cancel()
	var all sync.WaitGroup
	still := func(what string, measure func() error) {
		all.Go(func() {
			if err := measure(); !errors.Is(err, core.ErrTimeOut) || ctx.Err() != nil {
				t.Errorf("%s: got %v (%v), want %v", what, err, ctx.Err(), core.ErrTimeOut)
			}
		})
	}
	still("udp, from the start", func() error {
		_, err := MeasureUDP(ctx, UDPTest{Size: 64, Duration: short, Peer: sleeper}, nil)
		return err
	})
	still("udp", func() error {
		var peer *exec.Cmd
		var once sync.Once
		start := func(ctx context.Context) *exec.Cmd { peer = testPeer(ctx); return peer }
		_, err := MeasureUDP(ctx, UDPTest{Size: 64, Duration: time.Minute, Peer: start}, func(float64) { once.Do(func() { child.Stop(t, peer.Process) }) })
		return err
	})
	still("comch, from the start", func() error {
		m, err := newComchMeter(ctx, func(ctx context.Context, _ string) *exec.Cmd { return sleeper(ctx) }, 100)
		if err == nil {
			err = m.close(nil)
		}
		return err
	})
	for i, mode := range ComchModes {
		for k, use := range []func(m *comchMeter){
			func(m *comchMeter) { m.ping(1) }, func(m *comchMeter) { m.stream(100) },
			func(m *comchMeter) { m.unixPing(1) }, func(m *comchMeter) { m.unixStream(1 << 20) },
			func(m *comchMeter) { _, m.failed = m.finish() },
		} {
			still(fmt.Sprintf("comch, %s, use %d", mode, k), func() error { return stillComch(ctx, t, 10*i+k, mode, use) })
		}
	}
	all.Wait()
}

// stillComch uses a meter whose peer stands still.
func stillComch(ctx context.Context, t *testing.T, number int, mode string, use func(m *comchMeter)) error {
	m, err := newComchMeter(ctx, testComchPeer, number)
	if err != nil {
		return err
	}
	if err = m.prepare(ComchPoint{64, 4, mode}); err != nil {
		return m.close(err)
	}
	m.ping(10)
	child.Stop(t, m.peer.cmd.Process)
	use(m)
	return m.close(m.failed)
}

// Who waits for a message hears of the end of the peer, also if that comes when
// every receive is filled: then none is flushed.
func TestAPipeWithoutReceivesEnds(t *testing.T) {
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m, err := newComchMeter(ctx, testComchPeer, 300)
	if err != nil {
		t.Fatal(err)
	}
	if err = m.prepare(ComchPoint{64, 1, modePoll}); err != nil {
		t.Fatal(m.close(err))
	}
	m.serve()
	for p := m.pipe; p.echoed || p.arrived == 0 && p.numbered == 0; { // until an echo is there that was not taken
		p.echoed = false
		for p.put(messagePing); p.flying > 0; {
			p.turn()
		}
	}
	err = m.data.RequestNotification()
	core.KeepFirst(&err, m.data.Wait(ctx))
	core.KeepFirst(&err, m.data.ClearNotification())
	_ = m.peer.cmd.Process.Kill()
	if lost := m.wait(func() bool { return m.lost }); err != nil || lost != nil {
		t.Errorf("wait: %v, %v", err, lost)
	}
	for m.data.Progress() {
	}
	if m.pipe.failed == nil {
		t.Error("nobody hears of the end")
	}
	m.peer.guard.over()
	if err = m.close(m.pipe.failed); err == nil {
		t.Error("no error")
	}
}
