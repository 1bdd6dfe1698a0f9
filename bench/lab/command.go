package lab

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// toolTimeout is for tools that end by themselves.
const toolTimeout = 20 * time.Second

// Command prepares a program that runs inside the namespace, as exec.CommandContext
// does. The program keeps its process number: nsenter(1) becomes it.
//
// It is for what runs to its end, such as curl or nft; Start is for servers.
func (s *Space) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if path, err := exec.LookPath(program); err == nil {
		program = path // else nsenter says that there is none
	}
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + s.Path, "--", program}, args...)...)
}

// Output runs a program to its end and returns what it wrote to standard output.
// The error holds what it wrote to standard error.
func (s *Space) Output(ctx context.Context, program string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	cmd := s.Command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %s %s: %w: %s", s.Name, program, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
