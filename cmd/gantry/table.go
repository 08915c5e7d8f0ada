package main

import (
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// table prints rows under a header. A terminal gets aligned columns, or one
// line per cell when they do not fit; the columns in right, counted from 0, hold
// numbers and stand flush right. A pipe gets lines of fields with tabs between
// them.
func (c *console) table(header []string, rows [][]string, right ...int) {
	switch {
	case !isTerminal(c.out):
		for _, r := range append([][]string{header}, rows...) {
			c.printf("%s\n", strings.Join(r, "\t"))
		}
	case tableWidth(header, rows) > c.width():
		c.records(header, rows)
	default:
		c.printf("%s\n", aligned(header, rows, right))
	}
}

// columnGap is the room between two columns.
const columnGap = "  "

// tableWidth returns how many columns of a terminal the table takes.
func tableWidth(header []string, rows [][]string) int {
	width := (len(header) - 1) * len(columnGap)
	for i := range header {
		widest := utf8.RuneCountInString(header[i])
		for _, r := range rows {
			widest = max(widest, utf8.RuneCountInString(r[i]))
		}
		width += widest
	}
	return width
}

// records prints one line for each cell, and an empty one between rows.
func (c *console) records(header []string, rows [][]string) {
	widest := 0
	for _, h := range header {
		widest = max(widest, utf8.RuneCountInString(h))
	}
	for n, r := range rows {
		if n > 0 {
			c.printf("\n")
		}
		for i, field := range r {
			c.printf("%-*s%s%s\n", widest, header[i], columnGap, field)
		}
	}
}

// aligned renders the table for a terminal that is wide enough.
func aligned(header []string, rows [][]string, right []int) string {
	w := table.NewWriter()
	w.AppendHeader(cells(header))
	for _, r := range rows {
		w.AppendRow(cells(r))
	}
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", columnGap
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	var columns []table.ColumnConfig
	for _, i := range right {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	w.SetColumnConfigs(columns)
	return w.Render()
}

func cells(fields []string) table.Row {
	row := make(table.Row, len(fields))
	for i, f := range fields {
		row[i] = f
	}
	return row
}
