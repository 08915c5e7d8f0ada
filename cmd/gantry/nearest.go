package main

import "strings"

// nearest returns the word of known that name was most likely meant to be, or
// "" when none is near: not more than half of its letters differ, or it begins
// with what was typed. Two letters that changed places are two that differ.
func nearest(name string, known []string) (best string) {
	least := len(name)
	for _, k := range known {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if name != "" && strings.HasPrefix(k, name) {
			d = 0
		}
		if d < least && 2*d <= len(name) {
			least, best = d, k
		}
	}
	return best
}

// distance returns how many letters must be put in, taken out or replaced to
// turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0] // the cell up and to the left
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
