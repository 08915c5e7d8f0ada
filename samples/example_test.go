package samples_test

import (
	"fmt"
	"os"

	"github.com/gantry-rdma/gantry/samples"
)

func ExampleList() {
	for _, s := range samples.List() {
		fmt.Printf("%-33s %s\n", s.Name, s.Summary)
	}
	// Output:
	// pe_polling                        16 copies, completed by a busy loop
	// pe_event                          the program sleeps in epoll until there is something to do
	// pe_async_stop                     a context is stopped while tasks are in flight
	// pe_multi_context                  four contexts take turns on one engine
	// pe_reactive                       the whole program is in callbacks
	// pe_single_task_comp_cb            one callback for success and failure
	// pe_task_error                     one of 255 tasks fails, the context stops by itself
	// pe_task_resubmit                  four tasks are submitted again until 16 copies are made
	// pe_task_try_submit                the submit that checks the whole task first
	// dma_local_copy                    a text goes through lists of source and destination segments
	// dma_copy_host                     memory of the host is exported for the DPU to copy
	// dma_copy_dpu                      memory of the host is imported and copied
	// comch_ctrl_path_server            a message comes from a client, and is answered
	// comch_ctrl_path_client            a message goes to a server, and is answered
	// comch_data_path_high_speed_server a consumer receives a message, then a producer sends one
	// comch_data_path_high_speed_client a producer sends a message, then a consumer receives one
	// sync_event_local_pci              an event is exported to another process; they take turns
	// sync_event_remote_pci             an event of another process is imported; they take turns
}

// A virtual function has the same address on every machine.
func ExampleSample() {
	polling := samples.List()[0]
	r, err := polling.Run([]string{"--device", "03:00.0"}, os.Stdout, os.Stderr)
	fmt.Println(r.OK, err)
	// Output:
	// pe_polling on gantry_dpu0 (0000:03:00.0), executor inline
	// 16 tasks of 1024 bytes are submitted
	// 16 completed, 0 failed, 0 flushed
	// every byte that was copied is as expected
	// pe_polling: good
	// true <nil>
}
