package filecopy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-rdma/gantry/apps/filecopy"
	"github.com/gantry-rdma/gantry/work"
)

func ExampleCopy() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	if err := os.WriteFile(src, make([]byte, 3<<20), 0o644); err != nil {
		panic(err)
	}
	queue := work.NewWorkqueue(2)
	defer queue.Close()
	r, err := filecopy.Copy(context.Background(), src, dst, filecopy.Options{Executor: queue, Verify: true})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Bytes, "bytes in", r.Chunks, "chunks on", r.Executor, "- verified:", r.Verified)
	// Output: 3145728 bytes in 3 chunks on workqueue(2) - verified: true
}

func ExampleOptions_Check() {
	o := filecopy.Options{Chunk: 64 << 20, Tasks: 100}
	fmt.Println(o.Check())
	// Output: 100 tasks of 67108864 bytes need 6710886400 bytes of memory, and the limit is 1073741824 (1GiB): take fewer tasks or a smaller chunk: invalid input
}
