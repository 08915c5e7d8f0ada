package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/order"
)

// A Process is a program that runs in the guest.
type Process struct {
	g    *Guest
	name string
	id   int
	over chan struct{}

	mu    sync.Mutex
	out   strings.Builder
	grown chan struct{} // closed when out grows
	err   error         // valid once over is closed
}

// Start starts a program in the guest, which is killed after limit.
func (g *Guest) Start(limit time.Duration, argv ...string) (*Process, error) {
	id, answers, err := g.send(order.Order{Run: argv, Limit: int(limit.Seconds())})
	if err != nil {
		return nil, err
	}
	p := &Process{g: g, name: strings.Join(argv, " "), id: id, over: make(chan struct{}), grown: make(chan struct{})}
	go p.follow(answers)
	return p, nil
}

// follow collects what the program prints until it has ended.
func (p *Process) follow(answers <-chan order.Answer) {
	err := errors.New("the guest has ended")
	for a := range answers {
		p.mu.Lock()
		p.out.WriteString(a.Out)
		close(p.grown)
		p.grown = make(chan struct{})
		p.mu.Unlock()
		switch {
		case !a.Done:
		case a.Error != "":
			err = errors.New(a.Error)
		case a.Exit != 0:
			err = fmt.Errorf("status %d", a.Exit)
		default:
			err = nil
		}
	}
	if err != nil {
		p.err = fmt.Errorf("%s in the guest: %w", p.name, err)
	}
	close(p.over)
}

// Output returns what the program has printed so far, to both streams.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Await waits until the program has printed a text, or has ended.
func (p *Process) Await(ctx context.Context, text string) error {
	for {
		p.mu.Lock()
		found, grown := strings.Contains(p.out.String(), text), p.grown
		p.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-grown:
		case <-p.over:
			if strings.Contains(p.Output(), text) {
				return nil
			}
			return fmt.Errorf("%s has ended without saying %q (%w): %s", p.name, text, p.err, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s does not say %q: %w: %s", p.name, text, context.Cause(ctx), p.Output())
		}
	}
}

// Wait waits for the program's end. The error has what it printed.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.over:
		if p.err != nil {
			return fmt.Errorf("%w: %s", p.err, p.Output())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not end: %w: %s", p.name, context.Cause(ctx), p.Output())
	}
}

// Kill ends the program if it still runs, and waits until it has gone, or the
// guest has had time enough to say so.
func (p *Process) Kill() {
	if _, _, err := p.g.send(order.Order{ID: p.id, Kill: true}); err == nil {
		select {
		case <-p.over:
		case <-time.After(20 * time.Second):
		}
	}
}
