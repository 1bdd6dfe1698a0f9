package node_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/redirect"
)

// TestLabDirectCase1InModeRedirect walks the same connections behind the rules
// of istio-cni, loaded as it loads them: the proxy serves both modes alike. Each
// walk is tracked here, which shows that the reading of 0 in mode direct means
// something.
func TestLabDirectCase1InModeRedirect(t *testing.T) {
	s := bareScene(t)
	s.serveBehind(t, captureRedirect, node.Config{})
	w := s.prepareWalks(t)
	s.each(t, func(t *testing.T, v variant) {
		before := tracked(t, v.pod)
		w.all(t, v, func(t *testing.T) {
			now := tracked(t, v.pod)
			if now <= before {
				t.Errorf("%d connections are tracked, as many as before", now)
			}
			before = now
		})
	})
}

// captureRedirect puts the rules of mode redirect into a pod: for a normal pod
// with DNS capture, routes and policy rules first.
func captureRedirect(t *testing.T, p *lab.Pod) {
	t.Helper()
	text, err := os.ReadFile("testdata/redirect.rules")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		family, all, restore string
		rules                string
	}{
		{"-4", "0.0.0.0/0", "iptables-restore", string(text)},
		{"-6", "::/0", "ip6tables-restore", strings.NewReplacer(
			"127.0.0.1/32", "::1/128", redirect.DefaultProbe4().String(), redirect.DefaultProbe6().String(),
		).Replace(string(text))},
	} {
		lab.Output(t, p.Space, "ip", f.family, "route", "replace", "local", f.all, "dev", "lo", "table", "100")
		lab.Output(t, p.Space, "ip", f.family, "rule", "add", "fwmark", "0x111/0xfff", "pref", "32764", "lookup", "100")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		load := p.Command(ctx, f.restore, "--noflush")
		load.Stdin = strings.NewReader(f.rules)
		if out, err := load.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", f.restore, err, out)
		}
	}
}
