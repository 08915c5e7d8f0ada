package petasktrysubmit_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/petasktrysubmit"
)

// The check changes nothing for tasks that are right.
func ExampleRun() {
	r, err := petasktrysubmit.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed, err)
	// Output: true 16 16 <nil>
}
