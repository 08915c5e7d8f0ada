package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// table prints rows under a header. A pipe gets lines of fields with tabs
// between them. A terminal gets aligned columns; the columns in right, counted
// from 0, hold numbers and stand flush right.
func (c *console) table(header []string, rows [][]string, right ...int) {
	if !isTerminal(c.out) {
		for _, r := range append([][]string{header}, rows...) {
			c.printf("%s\n", strings.Join(r, "\t"))
		}
		return
	}
	c.printf("%s\n", fit(header, rows, right, c.width()))
}

// leastText is how narrow a column of text may become.
const leastText = 24

// fit renders a table for a terminal. When it is too wide, the last column is
// wrapped; when that does not help, each cell gets a line of its own.
func fit(header []string, rows [][]string, right []int, width int) string {
	last := len(header) - 1
	room := columnWidth(header, rows, last) + width - tableWidth(header, rows)
	switch {
	case tableWidth(header, rows) <= width:
		return aligned(header, rows, right)
	case room < leastText:
		return records(header, rows)
	}
	wrapped := make([][]string, len(rows))
	for i, r := range rows {
		wrapped[i] = slices.Clone(r)
		wrapped[i][last] = strings.Join(wrap(r[last], room), "\n")
	}
	return aligned(header, wrapped, right)
}

// columnGap is the room between two columns.
const columnGap = "  "

// tableWidth returns how many columns of a terminal the table takes.
func tableWidth(header []string, rows [][]string) int {
	width := (len(header) - 1) * len(columnGap)
	for i := range header {
		width += columnWidth(header, rows, i)
	}
	return width
}

// columnWidth returns how many letters the widest cell of column i has.
func columnWidth(header []string, rows [][]string, i int) int {
	widest := utf8.RuneCountInString(header[i])
	for _, r := range rows {
		widest = max(widest, utf8.RuneCountInString(r[i]))
	}
	return widest
}

// records renders a line for each cell, and an empty one between rows.
func records(header []string, rows [][]string) string {
	widest := 0
	for _, h := range header {
		widest = max(widest, utf8.RuneCountInString(h))
	}
	blocks := make([]string, len(rows))
	for i, r := range rows {
		lines := make([]string, len(r))
		for j, field := range r {
			lines[j] = fmt.Sprintf("%-*s%s%s", widest, header[j], columnGap, field)
		}
		blocks[i] = strings.Join(lines, "\n")
	}
	return strings.Join(blocks, "\n\n")
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

// wrap breaks text between words into lines of at most width letters, where the
// words are not longer.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line == "" {
		return lines
	}
	return append(lines, line)
}
