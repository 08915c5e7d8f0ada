package dmacopy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-rdma/gantry/apps/dmacopy"
)

// Both sides in one process, for once: each Run is what a process does.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(dir, "run"))
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	if err := os.WriteFile(src, make([]byte, 3<<20), 0o644); err != nil {
		panic(err)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		r, err := dmacopy.Run(context.Background(), dmacopy.Options{File: dst, Side: dmacopy.DPU, Verify: true})
		fmt.Printf("%d bytes from the %v, checksum %08x, verified: %v, %v\n", r.Bytes, r.From, r.Checksum, r.Verified, err)
	}()
	_, err = dmacopy.Run(context.Background(), dmacopy.Options{File: src})
	<-done
	fmt.Println(err)
	// Output:
	// 3145728 bytes from the host, checksum dd28f52b, verified: true, <nil>
	// <nil>
}

// A representor, or a function that has one, means the DPU.
func ExampleSideOf() {
	fmt.Println(dmacopy.SideOf("", ""), dmacopy.SideOf("", "07:00.0"), dmacopy.SideOf("03:00.0", ""), dmacopy.SideOf("07:00.0", ""))
	// Output: host dpu dpu host
}
