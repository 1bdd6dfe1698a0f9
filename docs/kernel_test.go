package docs_test

import (
	"go/ast"
	"strconv"
	"strings"
	"testing"
)

// TestKernelPage compares the features in the code, found by the calls that name
// them, with the page.
func TestKernelPage(t *testing.T) {
	inCode := map[string]string{} // name to version
	eachFile(t, func(path string, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && len(call.Args) > 2 && strings.HasSuffix(strings.ToLower(calledName(call)), "feature") {
				if name, since := text(call.Args[0]), text(call.Args[1]); name != "" {
					inCode[name] = since
				}
			}
			return true
		})
	})
	if len(inCode) < 10 {
		t.Errorf("found %d features in the code; the scan misses them", len(inCode))
	}
	onPage := map[string]string{}
	for _, row := range rows(page(t, "docs/kernel.md"), "## Features") {
		if len(row) != 3 || row[2] == "" {
			t.Errorf("row %q: want a feature, a version and what fails without it", row)
			continue
		}
		onPage[row[0]] = row[1]
	}
	for name, since := range inCode {
		if got, ok := onPage[name]; !ok || got != since {
			t.Errorf("docs/kernel.md says %q of the feature %q; the code says %q", got, name, since)
		}
	}
	for name := range onPage {
		if _, ok := inCode[name]; !ok {
			t.Errorf("docs/kernel.md has the feature %q; the code has none of that name", name)
		}
	}
}

func calledName(call *ast.CallExpr) string {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		return fn.Sel.Name
	}
	return ""
}

// text is the value of a string literal, or "".
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}
