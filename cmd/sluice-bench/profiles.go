package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// topTables writes the 20 most expensive functions beside each profile that was
// saved below dir, and says where all that is.
func topTables(w io.Writer, dir, bin string) error {
	var faults []error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".pprof" {
			return err
		}
		program := filepath.Join(bin, "sluice")
		if strings.HasPrefix(path, filepath.Join(dir, "bench")+string(filepath.Separator)) {
			program = filepath.Join(bin, "sluice-bench")
		}
		table, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=20", program, path).Output()
		if err != nil {
			faults = append(faults, fmt.Errorf("table of %s: %w; make it with go tool pprof -top", path, err))
			return nil
		}
		return os.WriteFile(strings.TrimSuffix(path, ".pprof")+".txt", table, 0o644)
	})
	_, printErr := fmt.Fprintf(w, "profiles and their tables are in %s\n", dir)
	return errors.Join(append(faults, err, printErr)...)
}
