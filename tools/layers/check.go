package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// check returns every use in the tree that the policy does not allow.
func check(p policy, tree map[string]*pkg) []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		r, ok := p.packages[name]
		if !ok {
			faults = append(faults, fmt.Sprintf("%s has no line in tools/layers/layers.txt", name))
			continue
		}
		for _, u := range tree[name].imports {
			if why := p.refuse(name, r, u); why != "" {
				faults = append(faults, fmt.Sprintf("%s: %s must not import %s%s", u.at, name, u.what, why))
			}
		}
		for _, u := range tree[name].forbidden {
			faults = append(faults, fmt.Sprintf("%s: %s: not in this house", u.at, u.what))
		}
	}
	return faults
}

// refuse says why the package must not have this import; "" when it may.
func (p policy) refuse(name string, r rule, u use) string {
	if users, limited := p.only[u.what]; limited {
		switch {
		case slices.Contains(users, name), slices.Contains(users, "tests") && u.test:
			return ""
		}
		return "; only " + strings.Join(users, ", ") + " may"
	}
	if _, ours := p.packages[u.what]; !ours && !isOurs(u.what) {
		return ""
	}
	if slices.Contains(r.imports, u.what) {
		return ""
	}
	if u.test && (u.what == name || slices.Contains(r.tests, u.what) || slices.Contains(p.tests, u.what)) {
		return ""
	}
	if u.test {
		return ", not even in its tests"
	}
	return "; its line in layers.txt does not name it"
}

// isOurs reports whether a path with the module's name cut off is one of ours.
func isOurs(imp string) bool {
	switch treeOf(imp) {
	case "cmd", "dataplane", "redirect", "bench", "tools", "internal":
		return !strings.HasPrefix(imp, "internal/") || imp == "internal/testkit"
	}
	return false
}
