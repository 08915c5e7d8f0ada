package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes, which scripts rely on.
const (
	exitGood   = 0
	exitFailed = 1 // the work failed
	exitUsage  = 2 // the command line is wrong
)

// run is the whole program: it carries out one command line and returns the
// exit code.
func run(args []string, out, errOut io.Writer) int {
	r := &results{to: out}
	c := &console{out: r, err: errOut}
	code := c.execute(rootCommand(c), args)
	if code == exitGood && r.lost != nil {
		c.notef("not all of the result could be written: %v", r.lost)
		return exitFailed
	}
	return code
}

// rootCommand makes the tree of all commands, each from a file of its own.
func rootCommand(c *console) *cobra.Command {
	cobra.EnableCommandSorting = false // the order below is the one to read them in
	root := &cobra.Command{
		Use:   "gantry",
		Short: "a software DPU and RDMA NIC: devices, DMA, messages, RDMA, samples, benchmarks",
		Long: `Gantry is a software DPU and RDMA NIC in Go. This command shows and measures
what its packages do.

It exits with 0 when the work is done, 1 when it failed, and 2 when the command
line is wrong. Results go to standard output, everything else to standard error.`,
		Version: version(),
	}
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print one JSON document, and nothing else, on standard output")
	root.AddCommand(
		versionCommand(c),
		devicesCommand(c),
		doctorCommand(c),
		sampleCommand(c),
		copyCommand(c),
		dmaCopyCommand(c),
		secureChannelCommand(c),
		perfCommand(c),
		pingpongCommand(c),
		rpingCommand(c),
		roceprobeCommand(c),
		benchCommand(c),
	)
	return group(root)
}

// group completes a command that only has sub-commands: anything else after
// its name is a wrong command line.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown("command", args[0], cmd.CommandPath(), commandNames(cmd))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.Root().SetOut(cmd.ErrOrStderr()) // help that nobody asked for is no result
		if err := cmd.Help(); err != nil {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr())
		return usagef("%s needs a command, one of those above", cmd.CommandPath())
	}
	return cmd
}

// commandNames returns the names of the sub-commands that help shows.
func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// execute runs one command line on the tree under root. Ctrl-C, or a request to
// terminate, cancels the context of the command, which then cleans up; a second
// one ends the process at once.
//
// A panic becomes a message, unless GANTRY_TRACE is in the environment.
func (c *console) execute(root *cobra.Command, args []string) (code int) {
	if os.Getenv("GANTRY_TRACE") == "" {
		defer func() {
			if r := recover(); r != nil {
				c.bug(r, args)
				code = exitFailed
			}
		}()
	}
	c.prepare(root)
	root.SetArgs(args)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	cmd, err := root.ExecuteContextC(ctx)
	switch wrong := (usageError{}); {
	case err == nil:
		return exitGood
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		c.notef("interrupted: %s did not finish", cmd.CommandPath())
		return exitFailed
	case !c.running || errors.As(err, &wrong):
		c.notef("%v", err)
		c.notef("run %q to see how it is used", cmd.CommandPath()+" --help")
		return exitUsage
	default:
		c.notef("%v", err)
		return exitFailed
	}
}

// prepare sets the conventions for every command of the tree. An error that
// comes before the body of a command runs is one of the command line.
func (c *console) prepare(root *cobra.Command) {
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetUsageFunc(printUsage)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			group(cmd).Short = "print the script that completes commands in a shell"
		}
	}
	c.mark(root)
}

// mark makes cmd and those below it say when their body begins, and refuse
// arguments unless they say which they take.
func (c *console) mark(cmd *cobra.Command) {
	if cmd.Args == nil && cmd.Runnable() {
		cmd.Args = wantArgs()
	}
	if body := cmd.RunE; body != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			c.running = true
			return body(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		c.mark(sub)
	}
}
