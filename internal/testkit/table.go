package testkit

import (
	"os"
	"strings"
	"testing"
)

// Table returns the cells of the first Markdown table behind the text after in the
// file, without its head: for tests that keep a document true.
func Table(t testing.TB, file, after string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("table: %v", err)
	}
	_, rest, found := strings.Cut(string(text), after)
	if !found {
		t.Fatalf("table: %s has no %q", file, after)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	if len(rows) < 3 {
		t.Fatalf("table: %s has no table behind %q", file, after)
	}
	return rows[2:] // the head and the line below it
}

// Code returns what is in backquotes in a cell.
func Code(cell string) []string {
	var found []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			found = append(found, part)
		}
	}
	return found
}
