package samples_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/samples"
)

// A stranger is the client of the data path's server that a test plays.
type stranger struct {
	testing.TB
	engine *core.Engine
	client *comch.Client
	heard  []string
}

// newStranger connects to the server of the data path sample, which will be
// there soon.
func newStranger(t *testing.T) *stranger {
	s := &stranger{TB: t}
	infos, err := device.List()
	s.must(err)
	var dev *device.Device
	for _, i := range infos {
		if dev == nil && comch.ClientSupported(i) == nil {
			dev, err = device.Open(i)
			s.must(err)
		}
	}
	s.engine, err = core.NewEngine()
	s.must(err)
	s.client, err = comch.NewClient(dev, "comch_data_path_sample_server")
	s.must(err)
	s.must(s.engine.Connect(&s.client.Context))
	s.must(s.client.ConfigureSend(s.sent, s.sent, 4))
	s.must(s.client.SetMessageFunc(func(_ *comch.Connection, m []byte) { s.heard = append(s.heard, string(m)) }))
	for s.client.State() != core.Running {
		if err := s.client.Start(); !errors.Is(err, core.ErrInProgress) {
			t.Fatal(err)
		}
		s.must(s.engine.Run(t.Context(), func() bool {
			return s.client.State() == core.Running || s.client.State() == core.Idle
		}))
	}
	t.Cleanup(func() {
		s.must(s.client.Shutdown(context.Background()))
		s.must(errors.Join(s.client.Destroy(), s.engine.Destroy(), dev.Close()))
	})
	return s
}

func (s *stranger) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stranger) sent(t *comch.Send) { s.must(t.Free()) }

// says sends a text and waits for so many answers in all.
func (s *stranger) says(text string, answers int) {
	s.Helper()
	c, err := s.client.Connection()
	s.must(err)
	t, err := s.client.AllocSend(c, []byte(text))
	s.must(err)
	s.must(t.Submit())
	s.must(s.engine.Run(s.Context(), func() bool { return len(s.heard) >= answers }))
}

// A client that does not keep to the story: the server says what was wrong, and
// leaves nothing behind.
func TestDataPathClientThatGoesAstray(t *testing.T) {
	for name, c := range map[string]struct {
		play func(*stranger)
		says string
		code error
	}{
		"leaves at once": {func(*stranger) {}, "the client left before the end of the test", core.ErrConnectionReset},
		"leaves before the data": {func(s *stranger) { s.says("start_data_path_test", 1) },
			"the client left before the end of the test", core.ErrConnectionReset},
		"stops before it starts": {func(s *stranger) { s.says("stop_data_path_test", 0) },
			`the client sent "stop_data_path_test", which means nothing now`, core.ErrUnexpected},
	} {
		t.Run(name, func(t *testing.T) {
			args := meeting(t, pathServer)
			done := make(chan error, 1)
			go func() {
				r, err := byName(t, pathServer).Run(args, t.Output(), t.Output())
				if r.OK != (err == nil) {
					t.Errorf("ok %v, error %v", r.OK, err)
				}
				done <- err
			}()
			s := newStranger(t)
			c.play(s)
			s.must(s.client.Shutdown(context.Background()))
			if err := <-done; !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q, %v", err, c.says, c.code)
			}
		})
	}
}

func TestDataPathRefusesWhatCannotBeSent(t *testing.T) {
	for _, args := range [][]string{{"-t", ""}, {"-size", "-1"}, {"-size", "1048577"}} {
		for _, name := range []string{pathServer, pathClient} {
			if _, err := byName(t, name).Run(args, t.Output(), t.Output()); !errors.Is(err, samples.ErrUsage) {
				t.Errorf("%s %q: got %v, want %v", name, args, err, samples.ErrUsage)
			}
		}
	}
}
