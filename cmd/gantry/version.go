package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionCommand prints which Gantry this is, and what it was built with.
func versionCommand(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version of this program",
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{version(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if c.json {
				return c.emit(v)
			}
			c.printf("gantry %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
			return nil
		},
	}
}

// version returns the version that the Go tool recorded, which names a tag or a
// commit, or "devel" where it recorded none.
func version() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" && b.Main.Version != "(devel)" {
		return b.Main.Version
	}
	return "devel"
}
