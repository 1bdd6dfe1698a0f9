package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A policy is layers.txt in memory. Package names are relative to the module.
type policy struct {
	packages map[string]rule
	tests    []string            // what the tests of every package may import
	only     map[string][]string // import path from outside to the packages that may use it
}

// A rule is the line of one package.
type rule struct {
	layer   int
	imports []string // allowed everywhere in the package
	tests   []string // allowed in its tests besides
}

// parsePolicy reads the text and reports every line that it does not understand.
//
//	# comment
//	tests : PACKAGE...
//	only IMPORT : PACKAGE...
//	PACKAGE LAYER : PACKAGE... : PACKAGE...
//
// A PACKAGE on the right may end in "/*": all packages below it that have a line
// of their own; within one part of the house only those on a lower layer.
func parsePolicy(text string) (policy, error) {
	p := policy{packages: map[string]rule{}, only: map[string][]string{}}
	var faults []error
	bad := func(line int, format string, args ...any) {
		faults = append(faults, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...))
	}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		columns := strings.Split(line, ":")
		head := strings.Fields(columns[0])
		switch {
		case len(columns) == 2 && len(head) == 1 && head[0] == "tests":
			p.tests = strings.Fields(columns[1])
		case len(columns) == 2 && len(head) == 2 && head[0] == "only":
			p.only[head[1]] = strings.Fields(columns[1])
		case len(columns) == 3 && len(head) == 2:
			layer, err := strconv.Atoi(head[1])
			if err != nil {
				bad(i+1, "layer %q is not a number", head[1])
				continue
			}
			if _, twice := p.packages[head[0]]; twice {
				bad(i+1, "%s has a second line", head[0])
				continue
			}
			p.packages[head[0]] = rule{layer, strings.Fields(columns[1]), strings.Fields(columns[2])}
		default:
			bad(i+1, "want \"PACKAGE LAYER : imports : test imports\", got %q", line)
		}
	}
	for name, r := range p.packages {
		r.imports, r.tests = p.expand(name, r.imports), p.expand(name, r.tests)
		p.packages[name] = r
	}
	return p, errors.Join(faults...)
}

// expand replaces "tree/*" by the packages below tree that user can stand on.
func (p policy) expand(user string, names []string) []string {
	var all []string
	for _, name := range names {
		tree, ok := strings.CutSuffix(name, "/*")
		if !ok {
			all = append(all, name)
			continue
		}
		for pkg := range p.packages {
			if strings.HasPrefix(pkg, tree+"/") && (treeOf(user) != treeOf(pkg) || p.packages[pkg].layer < p.packages[user].layer) {
				all = append(all, pkg)
			}
		}
	}
	slices.Sort(all)
	return all
}

// faults reports where the policy itself breaks the rules that it stands for:
// imports go strictly down.
func (p policy) faults() []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(p.packages)) {
		for _, imp := range p.packages[name].imports {
			if why := p.notBelow(imp, name); why != "" {
				faults = append(faults, fmt.Sprintf("layers.txt lets %s import %s: %s", name, imp, why))
			}
		}
	}
	return faults
}

// notBelow says why user must not stand on imp, or "".
func (p policy) notBelow(imp, user string) string {
	below, known := p.packages[imp]
	if !known {
		return "it has no line"
	}
	from, to := treeOf(user), treeOf(imp)
	switch {
	case to == "cmd":
		return "a program is not imported"
	case to == "internal" && from != "internal":
		return "internal/testkit is for tests"
	case from == to && below.layer >= p.packages[user].layer:
		return fmt.Sprintf("it is on layer %d, not below layer %d", below.layer, p.packages[user].layer)
	case from == to || from == "cmd" || from == "internal":
		return ""
	case from == "tools" && (to == "bench" || slices.Contains([]string{"dataplane/sys", "dataplane/netns"}, imp)):
		return ""
	case from == "redirect" && to == "dataplane" && below.layer <= 1:
		return ""
	case from == "bench" && (to == "redirect" || slices.Contains([]string{"dataplane/sys", "dataplane/netns", "dataplane/zds"}, imp)):
		return ""
	}
	return fmt.Sprintf("%s does not stand on this part of %s", from, to)
}

// treeOf is the part of the house that a package belongs to.
func treeOf(pkg string) string {
	tree, _, _ := strings.Cut(pkg, "/")
	return tree
}
