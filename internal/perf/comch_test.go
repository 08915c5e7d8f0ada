package perf

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// comchVariable makes this test program the other process of MeasureComch: the
// client of a server of that name.
const comchVariable = "GANTRY_TEST_COMCH_PEER"

func testComchPeer(ctx context.Context, name string) *exec.Cmd {
	cmd := child.Until(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), comchVariable+"="+name)
	return cmd
}

// inTime is a context for measurements: where one hangs, so may its other
// process, which then says where.
func inTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func beComchPeer() error {
	return ComchPeer(context.Background(), os.Getenv(comchVariable), os.NewFile(3, "unix socket"))
}

func TestComchBesideAUnixSocket(t *testing.T) {
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	r, err := MeasureComch(inTime(t), ComchTest{
		Points: []ComchPoint{{1, 1, modePoll}, {64, 4, modeEvent}, {100_000, 3, modePoll}, {64, 4, modePoll}},
		Each:   short, Peer: testComchPeer,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Results) != 4 || len(r.Crowds) != 0 {
		t.Fatalf("got %d results and %d crowds, want 4 and none", len(r.Results), len(r.Crowds))
	}
	for _, p := range r.Results {
		wantPositive(t, p, "allocs_per_op", "checked")
		if p.P50 > p.P99 || p.P99 > p.P999 {
			t.Errorf("quantiles out of order: %+v", p)
		}
		wantNoAllocs(t, p.Alloc)
		if (p.Checked == 0) != (p.Size < stampSize) {
			t.Errorf("%d bytes: %d messages were checked", p.Size, p.Checked)
		}
	}
	if r.Baseline.UnixP50 != r.Results[0].UnixP50 || r.Baseline.Copy != r.Results[2].Copy || r.ProgressIdle <= 0 {
		t.Errorf("baseline %+v and idle %v", r.Baseline, r.ProgressIdle)
	}
}

func TestComchCrowd(t *testing.T) {
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	r, err := MeasureComch(inTime(t), ComchTest{Pairs: 2, Peer: testComchPeer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Crowds) != len(ComchModes) {
		t.Fatalf("got %d crowds, want one for each mode", len(r.Crowds))
	}
	for _, c := range r.Crowds {
		wantPositive(t, c)
	}
}

// A measurement whose other process is not there, or dies, ends and says so.
func TestComchPeerThatIsGone(t *testing.T) {
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	began := time.Now()
	_, err := MeasureComch(inTime(t), ComchTest{Points: []ComchPoint{{64, 4, modePoll}}, Each: short,
		Peer: func(ctx context.Context, name string) *exec.Cmd {
			return exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		}}, nil)
	if err == nil {
		t.Error("a peer that ends at once: no error")
	}
	for _, mode := range ComchModes {
		var peer *exec.Cmd
		started := func(ctx context.Context, name string) *exec.Cmd {
			peer = testComchPeer(ctx, name)
			return peer
		}
		part := 0
		_, err = MeasureComch(inTime(t), ComchTest{Points: []ComchPoint{{64, 4, mode}}, Each: time.Minute, Peer: started},
			func(float64) {
				if part++; part == 3 {
					_ = peer.Process.Kill()
				}
			})
		if part < 3 {
			t.Errorf("%s: %d rounds were measured before the peer was to be killed: %v", mode, part, err)
		}
		if err == nil {
			t.Errorf("%s: the peer was killed: no error", mode)
		}
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A crowd of which one dies before it is known what it can do ends: nobody sends
// as many messages as a channel that has failed seems to take.
func TestComchCrowdOfWhichOneIsGone(t *testing.T) {
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var first *exec.Cmd
	_, err := MeasureComch(ctx, ComchTest{Pairs: 2, Peer: func(ctx context.Context, name string) *exec.Cmd {
		cmd := testComchPeer(ctx, name)
		if first == nil {
			first = cmd
		} else {
			_ = first.Process.Kill()
		}
		return cmd
	}}, nil)
	if err == nil || ctx.Err() != nil {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}

func TestComchRefusesWhatCannotBe(t *testing.T) {
	for _, p := range []ComchPoint{
		{0, 1, modePoll}, {1<<30 + 1, 1, modePoll}, {1, 0, modePoll}, {1, 4097, modePoll}, {1 << 29, 3, modePoll}, {1, 1, "run"},
	} {
		if _, err := MeasureComch(t.Context(), ComchTest{Points: []ComchPoint{p}}, nil); !errors.Is(err, core.ErrInvalidValue) {
			t.Errorf("%+v: got error %v", p, err)
		}
	}
}

// What the other process finds wrong ends the measurement, and is said.
func TestComchPeerThatFindsAFault(t *testing.T) {
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	for _, mode := range ComchModes {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		m, err := newComchMeter(ctx, testComchPeer, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err = m.prepare(ComchPoint{64, 4, mode}); err != nil {
			t.Fatal(m.close(err))
		}
		m.serve()
		m.pipe.numbered = 7 // where 0 is next
		for m.ok() {
			m.pipe.put(messageStream)
		}
		m.lastOne()
		if err = m.close(m.failed); err == nil || !strings.Contains(err.Error(), "message 7 came where 0 was next") || ctx.Err() != nil {
			t.Errorf("%s: got %v, %v", mode, err, ctx.Err())
		}
		cancel()
	}
}
