package syncevent

import (
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

func TestGetSetAndAdd(t *testing.T) {
	e := startEvent(t)
	v, err := e.Get()
	want(t, "get", err, nil)
	equal(t, "new", v, 0)
	want(t, "set", e.Set(5), nil)
	old, err := e.Add(3)
	want(t, "add", err, nil)
	equal(t, "old", old, 5)
	v, err = e.Get()
	want(t, "get", err, nil)
	equal(t, "sum", v, 8)
}

func TestAddWrapsAround(t *testing.T) {
	e := startEvent(t)
	want(t, "set", e.Set(all-1), nil)
	old, err := e.Add(3)
	want(t, "add", err, nil)
	equal(t, "old", old, all-1)
	v, _ := e.Get()
	equal(t, "sum", v, 1)
	old, err = e.Add(all) // minus one
	want(t, "add", err, nil)
	equal(t, "old", old, 1)
	v, _ = e.Get()
	equal(t, "difference", v, 0)
}

func TestCallsNeedAStartedEvent(t *testing.T) {
	e := newEvent(t, openDevice(t))
	closed := func(when string) {
		t.Helper()
		_, err := e.Get()
		want(t, "get "+when, err, core.ErrBadState)
		want(t, "set "+when, e.Set(1), core.ErrBadState)
		_, err = e.Add(1)
		want(t, "add "+when, err, core.ErrBadState)
		want(t, "wait "+when, e.Wait(soon(t), Equal, 0, all), core.ErrBadState)
		want(t, "wait yield "+when, e.WaitYield(soon(t), Equal, 0, all), core.ErrBadState)
	}
	closed("before the start")
	want(t, "start", e.Start(), nil)
	want(t, "set", e.Set(4), nil)
	want(t, "stop", e.Stop(), nil)
	closed("after the stop")
	want(t, "start again", e.Start(), nil)
	v, err := e.Get()
	want(t, "get", err, nil)
	equal(t, "value after a restart", v, 4)
	want(t, "destroy", e.Destroy(), nil)
	closed("after destroy")
}

func TestConcurrentAddsLoseNothingAndSeeEachValueOnce(t *testing.T) {
	const adders, each = 8, 2000
	e := startEvent(t)
	seen := make([]int, adders*each)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range adders {
		wg.Go(func() {
			for range each {
				old, err := e.Add(1)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[old]++
				mu.Unlock()
			}
		})
	}
	want(t, "wait", e.WaitYield(soon(t), Equal, adders*each, all), nil)
	wg.Wait()
	for v, n := range seen {
		if n != 1 {
			t.Fatalf("%d was the old value %d times, want once", v, n)
		}
	}
}
