package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpColumns is how wide help may be: a terminal of the usual size.
const helpColumns = 80

// helpCommand makes "gantry help COMMAND", the other way to write --help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "describe a command",
		Args: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = unknown("command", rest[0], found.CommandPath(), commandNames(found))
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, _, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// printUsage prints how a command is used, below its description in the help.
func printUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "Usage:\n  %s COMMAND [flags]\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		printCommands(w, cmd)
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", flagHelp(cmd.LocalFlags()))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\nFlags of every command:\n%s", flagHelp(cmd.InheritedFlags()))
	}
	return nil
}

// printCommands lists the sub-commands with their descriptions.
func printCommands(w io.Writer, cmd *cobra.Command) {
	fmt.Fprint(w, "\nCommands:\n")
	var shown []*cobra.Command
	widest := 0
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			shown = append(shown, sub)
			widest = max(widest, len(sub.Name()))
		}
	}
	indent := strings.Repeat(" ", 2+widest+2)
	for _, sub := range shown {
		lines := wrap(sub.Short, helpColumns-len(indent))
		fmt.Fprintf(w, "  %-*s  %s\n", widest, sub.Name(), strings.Join(lines, "\n"+indent))
	}
}

// flagHelp describes flags in columns, within helpColumns.
func flagHelp(flags *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = flags.SortFlags
	flags.VisitAll(func(f *pflag.Flag) {
		of := *f
		if f.Value.Type() == "bool" {
			of.Value = toggle{f.Value}
		}
		shown.AddFlag(&of)
	})
	return strings.TrimRight(shown.FlagUsagesWrapped(helpColumns), "\n") + "\n"
}

// A toggle is a flag that help shows by its name alone: that --json=true is
// possible too is not worth a column.
type toggle struct{ pflag.Value }

// Type returns the type for which pflag shows no value.
func (t toggle) Type() string { return "boolfunc" }

// reflow breaks the lines of text that are too wide for help, and keeps the
// rest of a line under its beginning.
func reflow(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "    \t", "        ")) {
		words := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(words)]
		if len(line) <= helpColumns {
			b.WriteString(line)
			continue
		}
		b.WriteString(indent + strings.Join(wrap(words, helpColumns-len(indent)), "\n"+indent) + "\n")
	}
	return b.String()
}
