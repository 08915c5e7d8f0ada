package pepolling_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/pepolling"
)

// The default executor copies inside Progress.
func ExampleRun() {
	r, err := pepolling.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed, r.States, err)
	// Output: true 16 16 [idle>running running>stopping stopping>idle] <nil>
}
