package verbs

// AttachMulticast lets a UD queue pair receive what is sent to a multicast
// group, from the time when it is ready to receive. The MGID is the address of
// the group, of the family of the device: an IPv6 one as it is, ::ffff:a.b.c.d
// for IPv4, as RoCEv2 has it. The lid has no meaning here.
//
// Several queue pairs may be attached to a group, one to several groups, and to
// attach twice does nothing. Senders need not be attached: they name the group
// with an address handle, and queue pair 0xffffff. What a queue pair sends to a
// group it gets itself if it is attached.
//
// A queue pair that is attached cannot be destroyed. An error of the system
// wraps a syscall.Errno: ENODEV where the network has no multicast.
func (q *QP) AttachMulticast(mgid GID, lid uint16) error {
	if err := checkMGID(mgid, q.pd.d); err != nil {
		return err
	}
	return numbered(q.n.Attach(mgid.Addr()))
}

// DetachMulticast ends AttachMulticast. What arrived before is still received.
func (q *QP) DetachMulticast(mgid GID, lid uint16) error {
	if err := checkMGID(mgid, q.pd.d); err != nil {
		return err
	}
	return numbered(q.n.Detach(mgid.Addr()))
}

func checkMGID(mgid GID, d *Device) error {
	switch a := mgid.Addr(); {
	case !a.IsMulticast():
		return invalid("MGID %v is no multicast group", a)
	case a.Is4() != d.addr.Is4():
		return invalid("MGID %v at %v: not of one address family", a, d.addr)
	}
	return nil
}
