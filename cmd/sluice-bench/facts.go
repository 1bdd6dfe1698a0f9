package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-mesh/sluice/bench/report"
)

// facts collects what the figures depend on. What this machine does not tell is
// left empty.
func facts(bin string, loops int, command string) report.Facts {
	f := report.Facts{
		Time:    time.Now().UTC().Format(time.RFC3339),
		Command: command, Commit: commit(filepath.Join(bin, "sluice")), Go: runtime.Version(),
		Cores: runtime.NumCPU(), Loops: loops,
		Kernel:   word("/proc/sys/kernel/osrelease", 0),
		Governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", 0),
	}
	f.CPU = field("/proc/cpuinfo", "model name")
	wanted := []string{"avx2", "avx512f", "vaes", "vpclmulqdq", "hypervisor"}
	var have []string
	for flag := range strings.FieldsSeq(field("/proc/cpuinfo", "flags")) {
		if slices.Contains(wanted, flag) {
			have = append(have, flag)
		}
	}
	f.Flags = strings.Join(have, " ")
	if f.Governor == "" {
		f.Governor = "unknown"
	}
	kib, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	f.Memory = kib << 10
	f.LoadBefore, _ = strconv.ParseFloat(word("/proc/loadavg", 0), 64)
	f.Versions = strings.Join(slices.DeleteFunc([]string{version("haproxy", "-v"), version("nginx", "-v")}, func(s string) bool { return s == "" }), "; ")
	return f
}

// commit is the revision that a program was built from, with + when files had
// been changed. A build without that note is taken for one of the tree in which
// it lies.
func commit(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	rev, plus := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			plus = "+"
		}
	}
	if rev != "unknown" {
		return rev + plus
	}
	git := func(args ...string) (string, error) {
		b, err := exec.Command("git", append([]string{"-C", filepath.Dir(path)}, args...)...).Output()
		return strings.TrimSpace(string(b)), err
	}
	head, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return rev
	}
	if changed, err := git("status", "--porcelain", "--untracked-files=no"); err != nil || changed != "" {
		plus = "+"
	}
	return head + plus
}

// field is the value of the first line that begins with key, up to a colon.
func field(path, key string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func word(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if f := strings.Fields(string(b)); n < len(f) {
		return f[n]
	}
	return ""
}

func version(program, flag string) string {
	b, err := exec.Command(program, flag).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return fmt.Sprintf("%s: %s", program, strings.TrimSpace(line))
}
