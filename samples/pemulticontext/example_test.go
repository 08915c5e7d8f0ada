package pemulticontext_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/pemulticontext"
)

// Four contexts with sixteen tasks each.
func ExampleRun() {
	r, err := pemulticontext.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed, len(r.States), err)
	// Output: true 64 64 12 <nil>
}
