package docs_test

import (
	"go/ast"
	"strconv"
	"strings"
	"testing"
)

// cases is how many numbered cases capture mode direct has.
const cases = 21

// TestCapturePage fails on a case without a test's name or "later", and on a name
// that no test has.
func TestCapturePage(t *testing.T) {
	tests := map[string]bool{}
	eachFile(t, func(path string, f *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[fn.Name.Name] = true
			}
		}
	})
	seen := map[int]bool{}
	for _, row := range rows(page(t, "docs/capture.md"), "") {
		if len(row) != 5 {
			t.Errorf("row %q has %d cells; want 5", row, len(row))
			continue
		}
		n, err := strconv.Atoi(row[0])
		if err != nil || n < 1 || n > cases {
			t.Errorf("case %q; want 1 to %d", row[0], cases)
		}
		seen[n] = true
		for i, family := range []string{"IPv4", "IPv6"} {
			for name := range strings.FieldsSeq(row[3+i] + " ") {
				name, _, _ = strings.Cut(strings.Trim(name, "`,"), "/")
				if name != "later" && name != "-" && (!strings.HasPrefix(name, "TestLab") || !tests[name]) {
					t.Errorf("case %d, %s, %s: there is no lab test %q", n, row[1], family, name)
				}
			}
			if row[3+i] == "" {
				t.Errorf("case %d, %s: nothing said for %s", n, row[1], family)
			}
		}
	}
	for n := 1; n <= cases; n++ {
		if !seen[n] {
			t.Errorf("case %d has no row", n)
		}
	}
}
