package securechannel_test

import (
	"context"
	"fmt"

	"github.com/gantry-rdma/gantry/apps/securechannel"
)

func ExampleLoop() {
	dpu, host, err := securechannel.Loop(context.Background(), securechannel.Options{Messages: 5000, Size: 256})
	fmt.Println(dpu.Side, dpu.Sent, dpu.Received)
	fmt.Println(host.Side, host.Sent, host.Received, err)
	// Output:
	// dpu 5000 5000
	// host 5000 5000 <nil>
}

func ExampleOptions_Check() {
	fmt.Println(securechannel.Options{Messages: 1, Size: 70000}.Check())
	// Output: messages of 70000 bytes: 1 to 65535 are possible: invalid input
}
