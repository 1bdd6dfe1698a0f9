package gcm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreCurrent runs the generator and compares.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "-C", "asmgen", ".", dir).CombinedOutput(); err != nil {
		t.Fatalf("go run -C asmgen: %v\n%s", err, out)
	}
	for _, name := range []string{"asm_amd64.s", "asm_amd64.go", "block_amd64.go"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what asmgen writes; run go generate in dataplane/gcm", name)
		}
	}
}
