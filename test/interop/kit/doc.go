// Package kit boots a small virtual machine whose kernel has RoCEv2 of its own,
// the driver rdma_rxe, and lets a process of this machine talk to it. It is
// what the interop tests stand on.
//
//   - Build makes the image from Debian packages, which it downloads and
//     unpacks in a cache folder. Nothing is installed.
//   - Enter gives the process a network namespace of its own, so that nothing
//     leaves the machine and nothing has to be cleaned up.
//   - Boot starts the machine, Guest.Run a program in it.
//   - A Wire is the cable between the two: it spoils packets when asked,
//     verifies the ICRC of each in both directions, and writes a capture.
//
// No privileges are needed where the system lets users make namespaces of their
// own.
package kit
