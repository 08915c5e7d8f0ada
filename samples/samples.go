// Package samples lists the samples: one program for each sample of NVIDIA
// DOCA's progress engine, DMA, Comch and sync event libraries, under its DOCA
// name, with the same steps, numbers of tasks and checks. Some are pairs, for two
// processes. Each is a package of its own, short enough to read in one sitting
// beside the original; docs/samples.md says what each one proves.
package samples

import (
	"github.com/gantry-rdma/gantry/samples/comchctrlpathclient"
	"github.com/gantry-rdma/gantry/samples/comchctrlpathserver"
	"github.com/gantry-rdma/gantry/samples/comchdatapathhighspeedclient"
	"github.com/gantry-rdma/gantry/samples/comchdatapathhighspeedserver"
	"github.com/gantry-rdma/gantry/samples/dmacopydpu"
	"github.com/gantry-rdma/gantry/samples/dmacopyhost"
	"github.com/gantry-rdma/gantry/samples/dmalocalcopy"
	"github.com/gantry-rdma/gantry/samples/peasyncstop"
	"github.com/gantry-rdma/gantry/samples/peevent"
	"github.com/gantry-rdma/gantry/samples/pemulticontext"
	"github.com/gantry-rdma/gantry/samples/pepolling"
	"github.com/gantry-rdma/gantry/samples/pereactive"
	"github.com/gantry-rdma/gantry/samples/pesingletaskcompcb"
	"github.com/gantry-rdma/gantry/samples/petaskerror"
	"github.com/gantry-rdma/gantry/samples/petaskresubmit"
	"github.com/gantry-rdma/gantry/samples/petasktrysubmit"
	"github.com/gantry-rdma/gantry/samples/sample"
	"github.com/gantry-rdma/gantry/samples/synceventlocalpci"
	"github.com/gantry-rdma/gantry/samples/synceventremotepci"
)

// A Sample is one program.
type Sample = sample.Sample

// A Result is what a sample counted, and whether all was as it should be.
type Result = sample.Result

// ErrUsage is matched by the error of a run whose arguments were wrong.
var ErrUsage = sample.ErrUsage

// The groups.
const (
	engine  = "progress engine"
	copies  = "dma"
	channel = "comch"
	events  = "sync event"
)

// List returns the samples in the order in which to read them.
func List() []Sample {
	return []Sample{
		{Name: "pe_polling", Group: engine, Run: pepolling.Run,
			Summary: "16 copies, completed by a busy loop"},
		{Name: "pe_event", Group: engine, Run: peevent.Run,
			Summary: "the program sleeps in epoll until there is something to do"},
		{Name: "pe_async_stop", Group: engine, Run: peasyncstop.Run,
			Summary: "a context is stopped while tasks are in flight"},
		{Name: "pe_multi_context", Group: engine, Run: pemulticontext.Run,
			Summary: "four contexts take turns on one engine"},
		{Name: "pe_reactive", Group: engine, Run: pereactive.Run,
			Summary: "the whole program is in callbacks"},
		{Name: "pe_single_task_comp_cb", Group: engine, Run: pesingletaskcompcb.Run,
			Summary: "one callback for success and failure"},
		{Name: "pe_task_error", Group: engine, Run: petaskerror.Run,
			Summary: "one of 255 tasks fails, the context stops by itself"},
		{Name: "pe_task_resubmit", Group: engine, Run: petaskresubmit.Run,
			Summary: "four tasks are submitted again until 16 copies are made"},
		{Name: "pe_task_try_submit", Group: engine, Run: petasktrysubmit.Run,
			Summary: "the submit that checks the whole task first"},
		{Name: "dma_local_copy", Group: copies, Run: dmalocalcopy.Run,
			Summary: "a text goes through lists of source and destination segments"},
		{Name: "dma_copy_host", Group: copies, Run: dmacopyhost.Run, Peer: "dma_copy_dpu",
			Summary: "memory of the host is exported for the DPU to copy"},
		{Name: "dma_copy_dpu", Group: copies, Run: dmacopydpu.Run, Peer: "dma_copy_host",
			Summary: "memory of the host is imported and copied"},
		{Name: "comch_ctrl_path_server", Group: channel, Run: comchctrlpathserver.Run, Peer: "comch_ctrl_path_client",
			Summary: "a message comes from a client, and is answered"},
		{Name: "comch_ctrl_path_client", Group: channel, Run: comchctrlpathclient.Run, Peer: "comch_ctrl_path_server",
			Summary: "a message goes to a server, and is answered"},
		{Name: "comch_data_path_high_speed_server", Group: channel, Run: comchdatapathhighspeedserver.Run, Peer: "comch_data_path_high_speed_client",
			Summary: "a consumer receives a message, then a producer sends one"},
		{Name: "comch_data_path_high_speed_client", Group: channel, Run: comchdatapathhighspeedclient.Run, Peer: "comch_data_path_high_speed_server",
			Summary: "a producer sends a message, then a consumer receives one"},
		{Name: "sync_event_local_pci", Group: events, Run: synceventlocalpci.Run, Peer: "sync_event_remote_pci",
			Summary: "an event is exported to another process; they take turns"},
		{Name: "sync_event_remote_pci", Group: events, Run: synceventremotepci.Run, Peer: "sync_event_local_pci",
			Summary: "an event of another process is imported; they take turns"},
	}
}
