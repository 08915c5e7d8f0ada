package syncevent_test

import (
	"context"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/syncevent"
)

const allBits = ^uint64(0)

// localEvent makes an idle event of this process.
func localEvent() (*device.Device, *syncevent.Event, error) {
	infos, err := device.List()
	if err != nil {
		return nil, nil, err
	}
	dev, err := device.Open(infos[0])
	if err != nil {
		return nil, nil, err
	}
	e, err := syncevent.New()
	if err != nil {
		return nil, nil, err
	}
	core.KeepFirst(&err, e.AddPublisher(syncevent.CPU, dev))
	core.KeepFirst(&err, e.AddSubscriber(syncevent.CPU, dev))
	return dev, e, err
}

// Two goroutines take turns.
func ExampleEvent_WaitYield() {
	dev, e, err := localEvent()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	if err := e.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer e.Destroy()
	ctx := context.Background()

	go func() {
		if e.WaitYield(ctx, syncevent.Equal, 1, allBits) == nil {
			e.Add(1)
		}
	}()
	e.Set(1)
	err = e.WaitYield(ctx, syncevent.Equal, 2, allBits)
	v, _ := e.Get()
	fmt.Println(v, err)
	// Output: 2 <nil>
}

// An event as a context: a task waits, and the engine sleeps until it is done.
func ExampleEvent_AsContext() {
	dev, e, err := localEvent()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	engine, _ := core.NewEngine()
	defer engine.Destroy()
	defer e.Destroy()
	life, err := e.AsContext()
	if err != nil {
		fmt.Println(err)
		return
	}
	engine.Connect(life)
	done := false
	end := func(w *syncevent.Wait) {
		fmt.Printf("%v: the value is %d\n", w.Status(), w.Result())
		done = true
		w.Free()
	}
	e.ConfigureWait(syncevent.Greater, end, end, 1)
	if err := life.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer life.Shutdown(context.Background())

	w, err := e.AllocWait(syncevent.Greater, 6, allBits)
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Submit()
	go e.Set(7)
	engine.Run(context.Background(), func() bool { return done })
	// Output: success: the value is 7
}
