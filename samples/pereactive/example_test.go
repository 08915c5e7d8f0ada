package pereactive_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/pereactive"
)

// The states are those of a sample whose main only calls Progress.
func ExampleRun() {
	r, err := pereactive.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Completed, r.States, err)
	// Output: true 16 [idle>running running>stopping stopping>idle] <nil>
}
