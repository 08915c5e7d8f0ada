// Package interop has tests that let Gantry talk to RDMA as the Linux kernel
// does it: the driver rdma_rxe, in a small virtual machine. See README.md.
package interop
