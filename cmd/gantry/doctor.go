package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// A check is one thing that "gantry doctor" looked at.
type check struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"` // without it Gantry does not work
	Detail   string `json:"detail"`   // what was found
	Advice   string `json:"advice"`   // what to do, "" when nothing
}

// verdict is the word for the outcome of a check.
func (k check) verdict() string {
	switch {
	case k.OK:
		return "ok"
	case k.Required:
		return "FAIL"
	}
	return "warn"
}

// doctorCommand checks this machine.
func doctorCommand(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "check what this machine can do for Gantry, and why not",
		Long: `Check what this machine can do for Gantry, and say what to do where it cannot.
Nothing is changed, and no rights are needed; what is sent stays on loopback.

A "FAIL" is something that Gantry needs, and makes the exit code 1. A "warn" is
something that makes it slower, or that only some programs need: the exit code
stays 0.`,
		RunE: func(*cobra.Command, []string) error { return c.doctor(examine()) },
	}
}

// doctor prints the checks. It fails when a required one did.
func (c *console) doctor(checks []check) error {
	var failed []string
	for _, k := range checks {
		if k.Required && !k.OK {
			failed = append(failed, k.Name)
		}
	}
	if c.json {
		err := c.emit(struct {
			OK     bool    `json:"ok"`
			Checks []check `json:"checks"`
		}{len(failed) == 0, checks})
		if err != nil {
			return err
		}
	} else {
		c.printChecks(checks)
	}
	if len(failed) > 0 {
		return fmt.Errorf("this machine lacks what Gantry needs: %s failed; the advice is beside it", list(failed, "and"))
	}
	return nil
}

// printChecks prints one line per check, with fields for a pipe, or wrapped
// for a terminal.
func (c *console) printChecks(checks []check) {
	if !isTerminal(c.out) {
		var rows [][]string
		for _, k := range checks {
			rows = append(rows, []string{k.verdict(), k.Name, k.Detail, k.Advice})
		}
		c.table([]string{"verdict", "check", "detail", "advice"}, rows)
		return
	}
	widest, warnings := 0, 0
	for _, k := range checks {
		widest = max(widest, len(k.Name))
		if k.verdict() == "warn" {
			warnings++
		}
	}
	indent := strings.Repeat(" ", len("warn")+2+widest+2)
	for _, k := range checks {
		room := max(c.width()-len(indent), 20)
		lines := wrap(k.Detail, room)
		for _, line := range wrap(k.Advice, room-2) {
			lines = append(lines, "> "+line)
		}
		c.printf("%-4s  %-*s  %s\n", k.verdict(), widest, k.Name, strings.Join(lines, "\n"+indent))
	}
	c.printf("\n%d checks, %d warnings. What to do stands behind the >.\n", len(checks), warnings)
}
