package syncevent_test

import (
	"context"
	"fmt"

	"github.com/gantry-rdma/gantry/syncevent"
)

// The owner of an event waits for what an importer publishes. The bytes of the
// export would go to another process by a file, a socket, or a message of
// package comch; here it is the same.
func ExampleImport() {
	dev, owner, err := localEvent()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	defer owner.Destroy()
	if err := owner.AddPublisher(syncevent.RemotePCI, nil); err != nil {
		fmt.Println(err)
		return
	}
	if err := owner.Start(); err != nil {
		fmt.Println(err)
		return
	}
	export, err := owner.ExportPCI(dev)
	if err != nil {
		fmt.Println(err)
		return
	}

	event, err := syncevent.Import(export, dev) // over there
	if err != nil {
		fmt.Println(err)
		return
	}
	defer event.Destroy()
	if err := event.Start(); err != nil {
		fmt.Println(err)
		return
	}
	event.Set(42)

	err = owner.WaitYield(context.Background(), syncevent.Equal, 42, allBits)
	fmt.Println(err)
	// Output: <nil>
}
