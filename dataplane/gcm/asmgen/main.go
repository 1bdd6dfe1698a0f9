// Command asmgen writes the generated files of dataplane/gcm into the
// directory that it is given: the assembly, its Go declarations and the layout
// of a key's block, which both sides share.
//
// It is a module of its own, so that the proxy's module does not require avo.
// Run it with "go generate" in dataplane/gcm; a test there fails when the
// committed files are not what it writes.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("asmgen: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: asmgen DIRECTORY, which gets the generated files")
	}
	if err := generate(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// generate writes all generated files into dir.
func generate(dir string) error {
	ctx := build.NewContext()
	emitFeatures(ctx)
	emitExpand(ctx, 10)
	emitExpand(ctx, 14)
	emitPowers(ctx)
	for _, rounds := range []int{10, 14} {
		emitWide(ctx, rounds, sealing)
		emitWide(ctx, rounds, opening)
	}
	ones := emitOnes(ctx)
	for _, rounds := range []int{10, 14} {
		emitNarrow(ctx, ones, rounds, sealing)
		emitNarrow(ctx, ones, rounds, opening)
	}
	file, err := ctx.Result()
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if err := pass.Compile.Execute(file); err != nil {
		return fmt.Errorf("compile: %w", err)
	}

	cfg := printer.Config{Name: "asmgen", Pkg: "gcm"}
	asm, err := printer.NewGoAsm(cfg).Print(file)
	if err != nil {
		return fmt.Errorf("print assembly: %w", err)
	}
	stubs, err := printer.NewStubs(cfg).Print(file)
	if err != nil {
		return fmt.Errorf("print declarations: %w", err)
	}
	layout, err := printLayout()
	if err != nil {
		return fmt.Errorf("print layout: %w", err)
	}
	for name, text := range map[string][]byte{
		"asm_amd64.s":    asm,
		"asm_amd64.go":   stubs,
		"block_amd64.go": layout,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
