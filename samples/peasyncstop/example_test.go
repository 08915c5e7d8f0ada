package peasyncstop_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/peasyncstop"
)

// How many tasks the stop overtakes depends on how far the copying was.
func ExampleRun() {
	r, err := peasyncstop.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed+r.Flushed, r.States, err)
	// Output: true 16 16 [idle>running running>stopping stopping>idle] <nil>
}
