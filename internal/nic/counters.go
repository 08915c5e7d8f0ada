package nic

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/qp"
)

// A counter is something that the device counts beside what its machines do.
type counter uint8

const (
	dropShort     counter = iota // shorter than its headers
	dropVersion                  // another version of the transport header
	dropOpcode                   // no such opcode of an unreliable transport
	dropLength                   // lengths and pad contradict each other
	dropCNP                      // congestion notification: recognised, not acted upon
	dropUnknownQP                // no such queue pair
	dropTransport                // the queue pair has another transport service
	dropState                    // the queue pair takes no such packets in its state
	dropAddress                  // from or to an address that is not the connection's
	dropPKey                     // another partition
	dropGroup                    // no queue pair is attached to the multicast group
	dropBacklog                  // too many packets wait for the queue pair
	keyFaults                    // local and remote accesses refused, one for each reason
	faultUnknown                 // no such key
	faultStale                   // another generation of the key, or one that was invalidated
	faultDomain                  // another protection domain
	faultRight                   // a right is missing
	faultRange                   // outside of the region
	countNoFrame                 // a half found no free frame
	countNoRoom                  // a half found no room in the link
	countCQOverflow
	countEventLost
	countSends // messages completed by the requester
	countReceives
	counters
)

var counterNames = [counters]string{
	dropShort: "drop_short", dropVersion: "drop_version", dropOpcode: "drop_opcode", dropLength: "drop_length",
	dropCNP: "rcvd_cnp", dropUnknownQP: "drop_unknown_qp", dropTransport: "drop_transport",
	dropState: "drop_qp_state", dropAddress: "drop_address", dropPKey: "drop_pkey", dropGroup: "drop_group", dropBacklog: "drop_backlog",
	keyFaults: "key_fault", faultUnknown: "key_unknown", faultStale: "key_stale", faultDomain: "key_domain",
	faultRight: "key_right", faultRange: "key_range",
	countNoFrame: "no_frame", countNoRoom: "no_room", countCQOverflow: "cq_overflow", countEventLost: "event_lost",
	countSends: "rdma_sends", countReceives: "rdma_recvs",
}

// tally are the counters of a device.
type tally struct {
	own     [counters]tallied
	machine [qp.Counters]tallied
}

// tallied is a counter in two parts.
type tallied struct {
	driven uint64        // by halves that a circle runs: under its lock
	others atomic.Uint64 // by everyone else
}

func (t *tallied) sum() uint64 { return t.driven + t.others.Load() }

func (d *Device) count(c counter) { d.tally.own[c].others.Add(1) }

// fault counts a refused access under its reason.
func (d *Device) fault(f keyFault) {
	d.count(keyFaults)
	d.count(keyFaults + counter(f))
}

// A Counter is the name of a counter and its value.
type Counter struct {
	Name  string
	Value uint64
}

// Counters returns all counters of the device: those of the kernel's driver
// under its names, those of the machines, one for each reason for which a
// packet was dropped, and those of the link. They only grow.
func (d *Device) Counters() (all []Counter) {
	d.exclusively(func() { all = d.counters() })
	return all
}

// Violations returns how many packets were dropped because of their P_Key, and
// how many datagrams because of their Q_Key.
func (d *Device) Violations() (pkeys, qkeys uint64) {
	d.exclusively(func() {
		pkeys, qkeys = d.tally.own[dropPKey].sum(), d.tally.machine[qp.CountDropQKey].sum()
	})
	return pkeys, qkeys
}

func (d *Device) counters() []Counter {
	s := d.link.Stats()
	all := []Counter{
		{"sent_pkts", s.SentFrames}, {"rcvd_pkts", s.RecvFrames}, {"send_err", s.SentDropped},
		{"sent_bytes", s.SentBytes}, {"rcvd_bytes", s.RecvBytes}, {"link_blocked", s.Blocked},
		{"drop_icrc", s.BadICRC}, {"drop_link_length", s.BadLength}, {"drop_link_version", s.BadVersion},
		{"drop_link_opcode", s.BadOpcode}, {"no_receive_buffer", s.NoBuffer}, {"drop_socket_buffer", s.Overflow},
		{"frame_sent_twice", s.SentTwice},
	}
	for c := range qp.Counters {
		all = append(all, Counter{c.String(), d.tally.machine[c].sum()})
	}
	for c := range counters {
		all = append(all, Counter{counterNames[c], d.tally.own[c].sum()})
	}
	return all
}
