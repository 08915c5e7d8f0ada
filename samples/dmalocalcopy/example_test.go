package dmalocalcopy_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/dmalocalcopy"
)

// Two tasks put a text together from five segments.
func ExampleRun() {
	r, err := dmalocalcopy.Run([]string{"-text", "Hello, segments", "-sources", "5", "-destinations", "1", "-tasks", "2"}, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed, err)
	// Output: true 2 2 <nil>
}
