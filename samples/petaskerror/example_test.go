package petaskerror_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/petaskerror"
)

// Tasks 0 and 1 are copied, task 2 fails, the rest is flushed.
func ExampleRun() {
	r, err := petaskerror.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed, r.Failed, r.Flushed, err)
	// Output: true 255 2 1 252 <nil>
}
