// Package device lists and opens software devices and their representors.
//
// Three kinds of device exist, and nothing has to be installed for any of them:
//
//   - one for every network interface of the machine, loopback included. It
//     has the interface's addresses as its GIDs, so RDMA can reach it;
//   - virtual DPU functions, two unless [Config] says otherwise. They stand
//     for the functions that a program on a DPU would open;
//   - one virtual host function for each of them: the same card, seen from
//     the host. A DPU function has a [Representor] of its host function.
//
// The steps are those of the DOCA device model. [List] describes what is
// there, [Info.Supports] answers whether it is fit for a purpose before any
// resource exists, and [Open] or [OpenPCI] gives the device itself:
//
//	d, err := device.OpenPCI("03:00.0", func(i *device.Info) error {
//		if !i.Supports(device.FeatureDMA) {
//			return core.ErrNotSupported
//		}
//		return nil
//	})
//	if err != nil {
//		return err
//	}
//	defer d.Close()
//
// Opening is counted: every Open of one device in a process gives the same
// [Device], and each needs its own Close. Maps and contexts hold the device
// that they use, and the last Close is refused until they have let go.
//
// Everything here belongs to set-up, not to the data path. All functions and
// methods may be called from any goroutine; the package starts none itself,
// and it opens no sockets.
package device
