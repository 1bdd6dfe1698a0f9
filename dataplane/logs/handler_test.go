package logs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

type named struct{}

func (named) String() string { return "name me" }

// lines writes records of every kind.
func lines(t *testing.T, format logs.Format) string {
	t.Helper()
	var out bytes.Buffer
	h := output(t, &out, format, "trace").Handler()
	at := time.Date(2026, 8, 20, 12, 11, 12, 345678901, time.FixedZone("east", 7200))
	write := func(h slog.Handler, l slog.Level, msg string, args ...any) {
		r := slog.NewRecord(at, l, msg, 0)
		r.Add(args...)
		if h.Enabled(t.Context(), l) {
			if err := h.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	scoped := h.WithAttrs([]slog.Attr{slog.String(logs.KeyScope, "pods"), slog.Int("loop", 3)})
	write(h, slog.LevelInfo, "no fields")
	write(scoped, slog.LevelDebug, "a scope and a field for all", "empty", "")
	write(h, slog.LevelError, "an error", "error", errors.New("dial: 192.0.2.1:1 > [::1]:2 & \"more\"\tline\nline"))
	write(h, slog.LevelWarn, "kinds", "int", -1, "uint", uint64(1)<<63, "float", 1.5, "bool", true, "duration", 1500*time.Millisecond, "time", at)
	write(h, slog.LevelWarn, "more kinds", "addr", netip.MustParseAddr("::1"), "port", netip.MustParseAddrPort("[::1]:2"),
		"list", []string{"a b", "c"}, "map", map[string]any{"b": 1, "a": "x y"}, "nothing", nil, "named", named{}, "func", func() {})
	write(scoped.WithGroup("g"), logs.LevelTrace, "groups", "a", 1, slog.Group("h", "b", 2))
	write(h, slog.LevelInfo, "a message\twith\nbreaks")
	return out.String()
}

func TestLines(t *testing.T) {
	plain := lines(t, logs.Plain)
	for line := range strings.Lines(plain) {
		if strings.Count(line, "\t") != 4 {
			t.Errorf("want time, level, scope, message and fields with tabs between: %q", line)
		}
	}
	var kept []string // but for the address of the func
	for line := range strings.Lines(plain) {
		if i := strings.Index(line, "func="); i > 0 {
			line = line[:i] + "func=…\n"
		}
		kept = append(kept, line)
	}
	testkit.Golden(t, "lines-plain.golden", strings.Join(kept, ""))

	kept = nil
	for line := range strings.Lines(lines(t, logs.JSON)) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if i := strings.Index(line, `,"func":`); i > 0 {
			line = line[:i] + "}\n"
		}
		kept = append(kept, line)
	}
	testkit.Golden(t, "lines-json.golden", strings.Join(kept, ""))
}

// Two that log at once do not mix their lines.
func TestWholeLines(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(output(t, &out, logs.JSON, "").Handler())
	done := make(chan struct{})
	for range 2 {
		go func() {
			for range 500 {
				log.With(logs.KeyScope, "pods").Info("m", "k", "v")
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	n := 0
	for line := range strings.Lines(out.String()) {
		if n++; !json.Valid([]byte(line)) {
			t.Fatalf("a mixed line: %s", line)
		}
	}
	if n != 1000 {
		t.Errorf("%d lines; want 1000", n)
	}
}

func TestFormats(t *testing.T) {
	for _, want := range []logs.Format{logs.Plain, logs.JSON} {
		if got, err := logs.ParseFormat(want.String()); got != want || err != nil {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
	if _, err := logs.ParseFormat("xml"); err == nil {
		t.Error("xml was taken")
	}
}
