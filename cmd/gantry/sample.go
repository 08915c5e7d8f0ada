package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gantry-rdma/gantry/samples"
	"github.com/spf13/cobra"
)

// sampleCommand lists and runs the samples: each is a command of its own, so
// that help and completion know them.
func sampleCommand(c *console) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "sample",
		Short: "list the samples, or run one",
		Long: `List the samples, or run one: small programs under their DOCA names, each with
one thing to show. They print what they do, and exit with 1 when something was
not as it should be.`,
	})
	cmd.AddCommand(sampleListCommand(c))
	var names []string
	for _, s := range samples.List() {
		cmd.AddCommand(oneSampleCommand(c, s))
		names = append(names, s.Name)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown("sample", args[0], "Gantry", names)
		}
		return nil
	}
	return cmd
}

// sampleListCommand prints the samples in the order in which to read them.
func sampleListCommand(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the samples in the order in which to read them",
		RunE: func(*cobra.Command, []string) error {
			type row struct {
				Name    string `json:"name"`
				Group   string `json:"group"`
				Summary string `json:"summary"`
			}
			var list []row
			var fields [][]string
			for _, s := range samples.List() {
				list = append(list, row{s.Name, s.Group, s.Summary})
				fields = append(fields, []string{s.Name, s.Group, s.Summary})
			}
			if c.json {
				return c.emit(map[string]any{"samples": list})
			}
			c.table([]string{"name", "group", "summary"}, fields)
			return nil
		},
	}
}

// oneSampleCommand runs s, which reads its flags itself. The flag --json is
// this program's, wherever it stands.
func oneSampleCommand(c *console, s samples.Sample) *cobra.Command {
	cmd := &cobra.Command{
		Use:                s.Name + " [flags]",
		Short:              s.Summary,
		Args:               cobra.ArbitraryArgs,
		DisableFlagParsing: true,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if slices.ContainsFunc(args, asksForHelp) {
			return cmd.Help()
		}
		args = slices.DeleteFunc(args, func(a string) bool {
			is := a == "--json" || a == "-json" || a == "--json=true"
			c.json = c.json || is
			return is
		})
		return c.runSample(s, args)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		var flags bytes.Buffer
		if _, err := s.Run([]string{"-h"}, &flags, c.err); err != nil {
			c.notef("%v", err)
		}
		c.printf("%s\n\nUsage:\n  %s\n\n", s.Summary, cmd.UseLine())
		c.printf("%s\n\n", reflow(strings.TrimRight(flags.String(), "\n")))
		c.printf("Flags of every command:\n%s", flagHelp(cmd.InheritedFlags()))
	})
	return cmd
}

func asksForHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// runSample runs s, and prints its story or its result.
func (c *console) runSample(s samples.Sample, args []string) error {
	story := c.out
	if c.json {
		story = io.Discard
	}
	r, err := s.Run(args, story, c.err)
	if errors.Is(err, samples.ErrUsage) {
		return usageError{err}
	}
	if c.json {
		if failed := c.emit(r); failed != nil {
			return failed
		}
	}
	if err == nil && !r.OK {
		return fmt.Errorf("%s: something was not as it should be: see above", s.Name)
	}
	return err // which begins with the name
}
