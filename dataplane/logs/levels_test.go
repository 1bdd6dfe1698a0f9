package logs_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/logs"
)

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		list, shown string
		lines       string // the scopes of lines that get out, each written at info
	}{
		{"", "info", "app access pods"},
		{" ", "info", "app access pods"},
		{"info", "info", "app access pods"},
		{"warn", "warn", ""},
		{"off", "off", ""},
		{"trace", "trace", "app access pods"},
		{"warn,access=info", "access=info,warn", "access"},
		{"access=info", "access=info", "access"},
		{"access:info", "access=info", "access"},
		{"ztunnel::pods=debug", "pods=debug", "pods"},
		{"ztunnel::pods:debug", "pods=debug", "pods"},
		{"ztunnel=info,access=off", "access=off,info", "app pods"},
		{"a=warn,ap=info,access=off,pod=info", "access=off,pod=info,ap=info,a=warn", "app pods"},
		{"hickory_server::server=off, info", "hickory_server::server=off,info", "app access pods"},
		{"info,warn", "warn", ""},
	} {
		l, err := logs.ParseLevels(tt.list)
		if err != nil {
			t.Errorf("%q: %v", tt.list, err)
			continue
		}
		if got := l.String(); got != tt.shown {
			t.Errorf("%q is shown as %q; want %q", tt.list, got, tt.shown)
		}
		if got := scopesOf(l); got != tt.lines {
			t.Errorf("%q lets out %q; want %q", tt.list, got, tt.lines)
		}
		if again, err := logs.ParseLevels(l.String()); err != nil || again.String() != tt.shown {
			t.Errorf("what %q shows does not parse to itself: %v, %v", tt.list, again, err)
		}
	}
}

func TestLevelFaults(t *testing.T) {
	for _, bad := range []string{"loud", "INFO", "access=", "=", "=info", "a=b=c", "access info", "info;warn", "ztunnel::x", "[span]=info", "info,,warn"} {
		if l, err := logs.ParseLevels(bad); err == nil {
			t.Errorf("%q was taken as %q", bad, l)
		}
	}
	_, err := logs.ParseLevels("loud,info,x=quiet")
	if err == nil || !strings.Contains(err.Error(), `"loud"`) || !strings.Contains(err.Error(), `"x=quiet"`) {
		t.Errorf("two faults give %v", err)
	}
}

// scopesOf names the scopes that may write at info.
func scopesOf(l *logs.Levels) string {
	var out bytes.Buffer
	log := slog.New(logs.New(&out, logs.Plain, l).Handler())
	log.Info("m")
	log.With(logs.KeyScope, "access").Info("m")
	log.With(logs.KeyScope, "pods").Info("m")
	var scopes []string
	for line := range strings.Lines(out.String()) {
		scopes = append(scopes, strings.Split(line, "\t")[2])
	}
	return strings.Join(scopes, " ")
}

// Levels change while they are in use, all or nothing.
func TestMerge(t *testing.T) {
	l, err := logs.ParseLevels("warn,access=info")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		list  string
		reset bool
		want  string // "" for an error
	}{
		{"", false, "access=info,warn"},
		{"access=debug", false, "access=debug,warn"},
		{"error,pods:off", false, "access=debug,pods=off,error"},
		{"info,nonsense=1", false, ""},
		{"nonsense", true, ""},
		{"", false, "access=debug,pods=off,error"},
		{"debug", true, "access=info,debug"},
		{"", true, "access=info,warn"},
	} {
		before := l.String()
		err := l.Merge(tt.list, tt.reset)
		switch {
		case tt.want == "" && (err == nil || l.String() != before):
			t.Errorf("%q was taken, or changed something: %v, %v", tt.list, err, l)
		case tt.want != "" && (err != nil || l.String() != tt.want):
			t.Errorf("after %q: %v, %v; want %q", tt.list, l, err, tt.want)
		}
	}
}
