package docs_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependenciesPage fails on a direct requirement without a paragraph and on a
// paragraph without a requirement.
func TestDependenciesPage(t *testing.T) {
	var headings []string
	for line := range strings.Lines(page(t, "docs/dependencies.md")) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok && !strings.Contains(heading, " ") {
			headings = append(headings, heading)
		}
	}
	direct := append(directly(page(t, "go.mod")), tools(page(t, "tools/lint/go.mod"))...)
	direct = append(direct, directly(page(t, "dataplane/gcm/asmgen/go.mod"))...)
	for _, module := range direct {
		if !slices.Contains(headings, module) {
			t.Errorf("%s has no paragraph in docs/dependencies.md", module)
		}
	}
	for _, heading := range headings {
		if !slices.Contains(direct, heading) {
			t.Errorf("docs/dependencies.md has a paragraph on %s; no go.mod requires it", heading)
		}
	}
}

// TestLinkedModules fails when the proxy links a module that the page does not
// name, so that it stays lean.
func TestLinkedModules(t *testing.T) {
	_, list, ok := strings.Cut(page(t, "docs/dependencies.md"), "## What the proxy links\n")
	if !ok {
		t.Fatal(`docs/dependencies.md lacks "## What the proxy links"`)
	}
	list, _, _ = strings.Cut(list, "\n## ")
	var named []string
	for line := range strings.Lines(list) {
		if module, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			named = append(named, module)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/sluice")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	linked = slices.Compact(linked)
	slices.Sort(named)
	if !slices.Equal(named, linked) {
		t.Errorf("the page names %v; cmd/sluice links %v", named, linked)
	}
}

// directly lists the modules that a go.mod requires itself.
func directly(gomod string) []string {
	var found []string
	inside := false
	for line := range strings.Lines(gomod) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			inside = true
		case line == ")":
			inside = false
		default:
			one, single := strings.CutPrefix(line, "require ")
			if (inside || single) && one != "" && !strings.HasSuffix(line, "// indirect") {
				found = append(found, strings.Fields(one)[0])
			}
		}
	}
	return found
}

// tools lists the modules whose programs a go.mod names as tools.
func tools(gomod string) []string {
	_, list, _ := strings.Cut(gomod, "tool (")
	list, _, _ = strings.Cut(list, ")")
	programs := strings.Fields(list)
	var found []string
	for line := range strings.Lines(gomod) {
		module, _, isRequirement := strings.Cut(strings.TrimSpace(line), " v")
		if isRequirement && slices.ContainsFunc(programs, func(p string) bool { return strings.HasPrefix(p+"/", module+"/") }) {
			found = append(found, module)
		}
	}
	return found
}

func TestReadingModFiles(t *testing.T) {
	gomod := "module m\n\ntool (\n\tx.org/a/cmd/a\n\tx.org/b\n)\n\nrequire x.org/d v1\n\nrequire (\n\tx.org/a v1 // indirect\n\tx.org/b v1\n\tx.org/c v1\n)\n"
	if got := strings.Join(directly(gomod), " "); got != "x.org/d x.org/b x.org/c" {
		t.Errorf("direct: %s", got)
	}
	if got := strings.Join(tools(gomod), " "); got != "x.org/a x.org/b" {
		t.Errorf("tools: %s", got)
	}
}
