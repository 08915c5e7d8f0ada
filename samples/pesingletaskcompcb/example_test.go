package pesingletaskcompcb_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/pesingletaskcompcb"
)

// One callback for all.
func ExampleRun() {
	r, err := pesingletaskcompcb.Run(nil, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Completed, r.Failed, err)
	// Output: true 16 0 <nil>
}
