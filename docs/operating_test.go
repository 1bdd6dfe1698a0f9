package docs_test

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestLogKeys fails on a field of the proxy's log that operating.md does not name,
// and on one that no line has.
func TestLogKeys(t *testing.T) {
	used := map[string]string{} // key to a file that uses it
	eachFile(t, func(path string, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(path, "dataplane/") && !strings.HasPrefix(path, "cmd/sluice/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, key := range logKeys(call) {
					used[key] = path
				}
			}
			return true
		})
	})
	if len(used) < 5 {
		t.Fatalf("found only %v: this test does not see the calls any more", used)
	}
	_, text, ok := strings.Cut(page(t, "docs/operating.md"), "Fields of all other lines:\n")
	if !ok {
		t.Fatal("operating.md has no fields of other lines")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	named := map[string]bool{}
	for _, row := range rows(text, "") {
		named[strings.Trim(row[0], "`")] = true
	}
	for _, key := range slices.Sorted(maps.Keys(used)) {
		if !named[key] {
			t.Errorf("%s logs %s; operating.md has no row for it", used[key], key)
		}
	}
	for key := range named {
		if used[key] == "" {
			t.Errorf("operating.md has a row for %s; no line has it", key)
		}
	}
}

// logKeys are the keys of a call like log.Info("message", "key", value).
func logKeys(call *ast.CallExpr) []string {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) || len(call.Args) < 3 {
		return nil
	}
	if message, ok := call.Args[0].(*ast.BasicLit); !ok || message.Kind != token.STRING {
		return nil
	}
	var keys []string
	for i := 1; i < len(call.Args); i += 2 {
		lit, ok := call.Args[i].(*ast.BasicLit)
		if !ok {
			return nil // attributes; there are none so far
		}
		key, err := strconv.Unquote(lit.Value)
		if err != nil {
			return nil
		}
		keys = append(keys, key)
	}
	return keys
}
