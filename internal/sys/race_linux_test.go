package sys

import (
	"runtime"
	"testing"
)

// Memory that is written after an answer to what was sent from it is not raced
// for. The race detector sees no system call, so it has to be told.
func TestASocketOrdersMemory(t *testing.T) {
	a, _ := loopback(t, "127.0.0.1")
	b, to := loopback(t, "127.0.0.1")
	memory, staged := make([]byte, 8), make([]byte, 8)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		in := NewRecvBatch(1)
		in.Set(0, make([]byte, 64))
		for n := 0; n == 0; n, _ = in.Recv(b, 1) {
			runtime.Gosched()
		}
		memory[0]++
	}()
	copy(staged, memory)
	out := NewSendBatch(1, 1)
	out.Add(staged)
	out.End(a, to, 0)
	if n, err := out.Send(a, 0); n != 1 {
		t.Fatal(err)
	}
	<-wrote
}
