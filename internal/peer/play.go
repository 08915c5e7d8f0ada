package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/roce"
)

// A Config says how Play plays a script.
type Config struct {
	// Local and Peer are the two ends. Not valid: what the script says, and
	// else 127.0.0.1 and the address after it.
	Local, Peer netip.Addr
	Self        bool      // the peer is to be in this process
	Capture     io.Writer // gets a pcapng file of what passes, or nil

	Play script.Config // Wire, Target and addresses are filled in
}

// Play plays a script: it opens a wire, and a target if the script is to have
// one, and closes both.
func Play(ctx context.Context, s *script.Script, c Config) (result script.Result, err error) {
	if err := c.choose(s); err != nil {
		return result, err
	}
	local, peer := netip.AddrPortFrom(c.Local, roce.Port), netip.AddrPortFrom(c.Peer, roce.Port)
	shot := newCapture(c.Capture)
	w, err := ListenWire(local, peer, shot)
	if err != nil {
		return result, err
	}
	c.Play.Wire, c.Play.Local, c.Play.Peer = w, unzoned(local), unzoned(peer)
	if c.Self {
		t := NewTarget(c.Peer, c.Play.Local.Addr())
		c.Play.Target = t
		defer func() { err = first(err, t.Close()) }()
	}
	defer func() { err = first(err, w.Close(), shot.close()) }()
	return s.Play(ctx, c.Play)
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ErrNoPeer says that a script has to be told where its peer is.
var ErrNoPeer = errors.New("where is the peer")

// choose fills in addresses that are not given.
func (c *Config) choose(s *script.Script) error {
	if !c.Local.IsValid() {
		c.Local = s.Local()
	}
	if !c.Local.IsValid() {
		c.Local = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if !c.Peer.IsValid() {
		c.Peer = s.Peer(c.Local)
	}
	switch {
	case c.Self && !s.HasTarget():
		return fmt.Errorf("%s has no target block, so it has no peer of its own", s.Name())
	case c.Self && !c.Peer.IsValid():
		c.Peer = c.Local.Next()
	case !c.Peer.IsValid():
		return ErrNoPeer
	}
	if c.Local.Is4() != c.Peer.Is4() {
		return fmt.Errorf("%v and %v are not of one address family", c.Local, c.Peer)
	}
	return nil
}
