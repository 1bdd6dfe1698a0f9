// Command layers fails when a package imports what tools/layers/layers.txt does
// not allow it, or uses what the house style forbids outside a few packages.
//
// Data enters as the policy file and the Go files below the module's root,
// whatever their build tags; faults leave on standard error, one a line, and
// make the exit status 1. Owns nothing.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the module's root directory")
	flag.Parse()
	faults, packages, err := run(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "layers:", err)
		os.Exit(2)
	}
	for _, f := range faults {
		fmt.Fprintln(os.Stderr, "layers:", f)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
	fmt.Printf("layers: %d packages keep to tools/layers/layers.txt\n", packages)
}

// run checks the module at root and returns every fault that it finds.
func run(root string) (faults []string, packages int, err error) {
	text, err := os.ReadFile(filepath.Join(root, "tools/layers/layers.txt"))
	if err != nil {
		return nil, 0, err
	}
	module, err := modulePath(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, 0, err
	}
	policy, err := parsePolicy(string(text))
	if err != nil {
		return nil, 0, fmt.Errorf("tools/layers/layers.txt: %w", err)
	}
	tree, err := scan(root, module)
	if err != nil {
		return nil, 0, err
	}
	return append(policy.faults(), check(policy, tree)...), len(tree), nil
}
