package gcm

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An instr is one instruction of the assembly, and where it is.
type instr struct {
	line int
	op   string
	args []string // Go's order: sources first, destination last
}

// A function is one TEXT of the assembly.
type function struct {
	name   string
	code   []instr
	labels map[string]int // index into code
}

// readAsm parses the committed assembly. It knows the form that avo prints.
func readAsm(t *testing.T) []*function {
	t.Helper()
	text, err := os.ReadFile("asm_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	var all []*function
	var fn *function
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || strings.HasPrefix(line, "DATA") || strings.HasPrefix(line, "GLOBL"):
		case strings.HasPrefix(line, "TEXT"):
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "TEXT ·"), "(")
			fn = &function{name: name, labels: map[string]int{}}
			all = append(all, fn)
		case strings.HasSuffix(line, ":"):
			fn.labels[strings.TrimSuffix(line, ":")] = len(fn.code)
		default:
			op, rest, _ := strings.Cut(line, " ")
			in := instr{line: i + 1, op: op}
			for arg := range strings.SplitSeq(rest, ", ") {
				if arg = strings.TrimSpace(arg); arg != "" {
					in.args = append(in.args, arg)
				}
			}
			fn.code = append(fn.code, in)
		}
	}
	if len(all) != 12 {
		t.Fatalf("read %d functions; the assembly has 12", len(all))
	}
	return all
}

var (
	general = regexp.MustCompile(`^(AX|BX|CX|DX|SI|DI|BP|R\d+)$`)
	opmask  = regexp.MustCompile(`^K[0-7]$`)
	vectorR = regexp.MustCompile(`^[XYZ]\d+$`)
	inAddr  = regexp.MustCompile(`\((\w+)(?:\*\d)?\)`)
)

// secrets is what holds a secret: general registers, mask registers, "flags".
type secrets map[string]bool

// source reports whether reading arg yields a secret. All vectors do, and all
// memory but the arguments; of those, the content type counts as one too.
func (s secrets) source(arg string) bool {
	switch {
	case strings.HasPrefix(arg, "$"):
		return false
	case general.MatchString(arg), opmask.MatchString(arg):
		return s[arg]
	case strings.HasSuffix(arg, "(FP)"):
		return strings.HasPrefix(arg, "trailer+")
	}
	return true
}

func (s secrets) any(args []string) bool { return slices.ContainsFunc(args, s.source) }

// step applies in to s and returns what is wrong with it; "" when nothing is.
//
// Wrong are: an address or a mask that depends on a secret, a jump on a secret,
// an instruction whose time depends on its operands, and one that step does not
// know.
func (s secrets) step(in instr) string {
	for _, arg := range in.args {
		for _, m := range inAddr.FindAllStringSubmatch(arg, -1) {
			if s[m[1]] {
				return "address from a secret"
			}
		}
		if opmask.MatchString(arg) && s[arg] {
			return "mask from a secret"
		}
	}
	if len(in.args) == 0 {
		if !slices.Contains([]string{"RET", "VZEROALL", "CPUID"}, in.op) {
			return "unknown instruction"
		}
		return ""
	}
	last := in.args[len(in.args)-1]
	switch in.op {
	case "JMP":
	case "JB", "JA", "JZ", "JNZ":
		if s["flags"] {
			return "jump on a secret"
		}
	case "MOVQ", "MOVL", "MOVW", "MOVB":
		if general.MatchString(last) {
			s[last] = s.source(in.args[0])
		}
	case "KMOVQ", "KMOVW":
		s[last] = s.source(in.args[0])
	case "LEAQ":
		s[last] = false // its parts are public, or it was refused above
	case "SETEQ":
		s[last] = s["flags"]
	case "CMPQ", "TESTQ", "VPTEST":
		s["flags"] = s.any(in.args)
	case "XORL", "XORQ", "ADDL", "ADDQ", "SUBQ", "ANDQ":
		s[last] = s.any(in.args) && (in.op[0] != 'X' || in.args[0] != last)
		s["flags"] = s[last]
	case "NOTQ", "NEGQ", "SHRQ", "SHLQ", "BSWAPL", "DECL":
		s["flags"] = s[last]
	case "BZHIQ", "BZHIL":
		s[last] = s.any(in.args[:2])
		s["flags"] = s[last]
	default:
		// Vector instructions take the same time whatever they hold. None of
		// those used writes a general register or a mask.
		if in.op[0] != 'V' || general.MatchString(last) || opmask.MatchString(last) {
			return "unknown instruction"
		}
	}
	return ""
}

// TestConstantTime follows every secret through the general registers of every
// function: none may decide a jump, an address or a mask, and none may be left
// in a register at the end.
func TestConstantTime(t *testing.T) {
	for _, fn := range readAsm(t) {
		if fn.name == "leaf7" {
			continue
		}
		for fault := range fn.faults() {
			t.Errorf("%s: %s", fn.name, fault)
		}
	}
}

// faults follows all ways through fn until nothing new is found out.
func (fn *function) faults() map[string]bool {
	found := map[string]bool{}
	at := make([]secrets, len(fn.code)) // what may be secret before each instruction
	at[0] = secrets{}
	for todo := []int{0}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		in, after := fn.code[i], maps.Clone(at[i])
		if fault := after.step(in); fault != "" {
			found[in.describe(fault)] = true
		}
		var next []int
		if in.op == "RET" {
			for name, secret := range after {
				if secret && general.MatchString(name) {
					found[in.describe("returns with a secret in "+name)] = true
				}
			}
			continue
		}
		if in.op[0] == 'J' {
			next = append(next, fn.labels[in.args[0]])
		}
		if in.op != "JMP" {
			next = append(next, i+1)
		}
		for _, n := range next {
			grew := at[n] == nil
			if grew {
				at[n] = secrets{}
			}
			for name, secret := range after {
				if secret && !at[n][name] {
					at[n][name], grew = true, true
				}
			}
			if grew {
				todo = append(todo, n)
			}
		}
	}
	return found
}

func (in instr) describe(fault string) string {
	return strings.Join(append([]string{fault + ":", in.op}, in.args...), " ")
}

// TestCheckerFindsLeaks proves that TestConstantTime can fail.
func TestCheckerFindsLeaks(t *testing.T) {
	for _, tt := range []struct{ name, code string }{
		{"table", "MOVQ b+0(FP), AX; MOVB (AX), BX; MOVQ (AX)(BX*8), CX; XORL BX, BX; XORL CX, CX; RET"},
		{"branch", "MOVQ b+0(FP), AX; CMPQ (AX), $1; JB x; RET"},
		{"branch after arithmetic", "MOVQ b+0(FP), AX; MOVQ (AX), BX; ADDQ $3, BX; JZ x; XORL BX, BX; RET"},
		{"mask", "MOVQ b+0(FP), AX; MOVQ (AX), BX; KMOVQ BX, K1; VMOVDQU8 Z1, K1, (AX); XORL BX, BX; RET"},
		{"left behind", "MOVQ b+0(FP), AX; MOVQ (AX), BX; RET"},
		{"from a vector", "VMOVQ X1, BX; RET"},
		{"division", "MOVQ b+0(FP), AX; DIVQ BX; RET"},
	} {
		fn := &function{name: tt.name, labels: map[string]int{"x": 0}}
		for line := range strings.SplitSeq(tt.code, "; ") {
			op, rest, _ := strings.Cut(line, " ")
			in := instr{op: op}
			if rest != "" {
				in.args = strings.Split(rest, ", ")
			}
			fn.code = append(fn.code, in)
		}
		if len(fn.faults()) == 0 {
			t.Errorf("%s: the checker saw nothing wrong with %s", tt.name, tt.code)
		}
	}
}

// TestRegistersAndStackAreCleared: VZEROALL comes right before the end, after
// it only clearing, registers 16 to 31 are cleared where they were used, and
// each word of the frame is overwritten.
func TestRegistersAndStackAreCleared(t *testing.T) {
	frame := regexp.MustCompile(`^(\d*)\(SP\)$`)
	for _, fn := range readAsm(t) {
		cleared, used, stack := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for i, in := range fn.code {
			ending := i >= len(fn.code)-25
			if ending && in.op == "VPXORQ" && in.args[0] == in.args[2] && in.args[1] == in.args[2] {
				cleared[in.args[2][1:]] = true
				continue
			}
			for _, arg := range in.args {
				if vectorR.MatchString(arg) && len(arg) == 3 && arg[1:] >= "16" {
					used[arg[1:]] = true
				}
				if frame.MatchString(arg) && in.op != "LEAQ" {
					stack[arg] = true
				}
			}
		}
		for r := range used {
			if !cleared[r] {
				t.Errorf("%s: vector register %s is not cleared", fn.name, r)
			}
		}
		if fn.name == "leaf7" {
			continue
		}
		tail := fn.code[max(0, len(fn.code)-9):]
		zero := slices.IndexFunc(tail, func(in instr) bool { return in.op == "VZEROALL" })
		if zero < 0 || tail[len(tail)-1].op != "RET" {
			t.Errorf("%s: does not end with VZEROALL and RET", fn.name)
			continue
		}
		wiped := map[string]bool{}
		for _, in := range tail[zero+1 : len(tail)-1] {
			switch in.op {
			case "VMOVDQU":
				if in.args[0] == "Y0" {
					wiped[in.args[1]] = true
				}
			case "XORL":
			default:
				t.Errorf("%s: %s after VZEROALL", fn.name, in.op)
			}
		}
		for word := range stack {
			// 32 bytes are wiped at a time.
			if half := strings.Replace(word, "16(SP)", "(SP)", 1); !wiped[word] && !wiped[half] {
				t.Errorf("%s: %s is not wiped", fn.name, word)
			}
		}
		if rets := len(slices.DeleteFunc(slices.Clone(fn.code), func(in instr) bool { return in.op != "RET" })); rets != 1 {
			t.Errorf("%s: %d returns; only the last is known to clear", fn.name, rets)
		}
	}
}
