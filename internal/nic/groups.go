package nic

// groupQPN is the queue pair that datagrams to a multicast group name.
const groupQPN = numbers - 1
