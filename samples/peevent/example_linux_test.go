package peevent_test

import (
	"fmt"
	"io"
	"os"

	"github.com/gantry-rdma/gantry/samples/peevent"
)

// On the work queue the copying goes on while the program sleeps.
func ExampleRun() {
	r, err := peevent.Run([]string{"-executor", "workqueue", "-workers", "2"}, io.Discard, os.Stderr)
	fmt.Println(r.OK, r.Tasks, r.Completed, err)
	// Output: true 16 16 <nil>
}
