// Package docs_test keeps what the documents claim true.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// page reads a file by its path from the module's root.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rows returns the cells of the tables below a heading, or of all tables for
// "", without their head lines.
func rows(text, heading string) [][]string {
	var found [][]string
	inside := heading == ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			inside = heading == "" || line == heading
		}
		cells, isRow := strings.CutPrefix(line, "| ")
		switch {
		case !isRow || !inside:
		case strings.HasPrefix(line, "| ---"):
			found = found[:len(found)-1] // the line before was the head
		default:
			var row []string
			for cell := range strings.SplitSeq(strings.TrimSuffix(cells, "|"), "|") {
				row = append(row, strings.TrimSpace(cell))
			}
			found = append(found, row)
		}
	}
	return found
}

// eachFile parses every Go file of the module.
func eachFile(t *testing.T, visit func(path string, f *ast.File)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(strings.TrimPrefix(path, "../")), f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRows(t *testing.T) {
	text := "# A\n\n| h | i |\n| --- | --- |\n| a | b |\n\n## B\n\n| h |\n| --- |\n| c |\n| d |\n"
	if got := rows(text, "## B"); len(got) != 2 || got[0][0] != "c" || got[1][0] != "d" {
		t.Errorf("rows below B: %v", got)
	}
	if got := rows(text, ""); len(got) != 3 || got[0][1] != "b" {
		t.Errorf("all rows: %v", got)
	}
}
