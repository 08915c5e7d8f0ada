package petaskresubmit_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/petaskresubmit"
)

// Four tasks make sixteen copies.
func ExampleRun() {
	r, err := petaskresubmit.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed, err)
	// Output: true 4 16 <nil>
}
