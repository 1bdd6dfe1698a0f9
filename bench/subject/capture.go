package subject

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// redirectRules are the rows of capture mode redirect as text, without DNS.
//
//go:embed redirect.rules
var redirectRules string

// group is the group of a subject that can't mark its sockets: a row of mode
// redirect does that for it. It is the group nogroup of every Debian.
const group = 65534

// capture puts the rules of the place's mode into all its pods. The subject
// listens already.
func (at Place) capture(ctx context.Context, byGroup bool) error {
	for _, p := range at.Pods {
		var err error
		switch at.Mode {
		case Direct:
			err = at.applyDirect(ctx, p)
		case Redirect:
			err = redirectPod(ctx, p.Space, byGroup)
		default:
			err = fmt.Errorf("no such mode; want %s or %s", Direct, Redirect)
		}
		if err != nil {
			return fmt.Errorf("capture pod %s in mode %s: %w", p.Name, at.Mode, err)
		}
	}
	return nil
}

// applyDirect runs the program that ships, outside of the pod: it refuses its own
// namespace.
func (at Place) applyDirect(ctx context.Context, p Pod) error {
	out, err := exec.CommandContext(ctx, filepath.Join(at.Bin, "sluice-redirect"), "apply",
		"--netns", p.Path, "--state-dir", filepath.Join(at.Lab.Dir, "state")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func redirectPod(ctx context.Context, s *lab.Space, byGroup bool) error {
	rules := redirectRules
	if byGroup {
		mark := fmt.Sprintf("-A OUTPUT -m owner --gid-owner %d -j MARK --set-xmark 0x539/0xfff\n", group)
		rules = strings.Replace(rules, "-A OUTPUT -j ISTIO_OUTPUT\n", mark+"-A OUTPUT -j ISTIO_OUTPUT\n", 1)
	}
	cmd := s.Command(ctx, "iptables-restore", "--noflush")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables-restore: %w: %s", err, strings.TrimSpace(string(out)))
	}
	for _, args := range []string{
		"rule add fwmark 0x111/0xfff pref 32764 lookup 100",
		"route add local 0.0.0.0/0 dev lo table 100",
	} {
		if _, err := s.Output(ctx, "ip", strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}
