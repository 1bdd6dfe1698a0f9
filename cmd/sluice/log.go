package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
)

// scopeKey is the attribute that names the module a line belongs to.
const scopeKey = "scope"

// lineHandler writes one line per record: time, level, scope, message and
// key=value pairs with tabs between, or one JSON object. It is the format that
// operators of the mesh have their tools for.
type lineHandler struct {
	out    *lockedWriter
	json   bool
	levels levels
	attrs  []slog.Attr
}

// lockedWriter writes whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) write(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(line)
	return err
}

func newLineHandler(w io.Writer, asJSON bool, l levels) *lineHandler {
	return &lineHandler{out: &lockedWriter{w: w}, json: asJSON, levels: l}
}

// Enabled lets through what any scope wants; Handle knows the scope.
func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.levels.least() }

// WithAttrs keeps attributes for every line.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append(append([]slog.Attr(nil), h.attrs...), attrs...)
	return &c
}

// WithGroup is not used by us: keys are flat.
func (h *lineHandler) WithGroup(string) slog.Handler { return h }

// Handle writes r.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	scope := "app"
	attrs := make([]slog.Attr, 0, len(h.attrs)+r.NumAttrs())
	take := func(a slog.Attr) bool {
		if a.Key == scopeKey {
			scope = a.Value.String()
		} else {
			attrs = append(attrs, a)
		}
		return true
	}
	for _, a := range h.attrs {
		take(a)
	}
	r.Attrs(take)
	if r.Level < h.levels.of(scope) {
		return nil
	}
	when := r.Time.UTC().Format("2006-01-02T15:04:05.000000Z")
	var b bytes.Buffer
	if h.json {
		fmt.Fprintf(&b, `{"level":%q,"time":%q,"scope":%q,"message":%s`, levelName(r.Level), when, scope, quoteJSON(r.Message))
		for _, a := range attrs {
			fmt.Fprintf(&b, ",%q:%s", a.Key, jsonValue(a.Value))
		}
		b.WriteString("}\n")
	} else {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t", when, levelName(r.Level), scope, r.Message)
		for i, a := range attrs {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(a.Key + "=" + plainValue(a.Value))
		}
		b.WriteByte('\n')
	}
	return h.out.write(b.Bytes())
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// plainValue quotes strings, and leaves numbers and addresses bare.
func plainValue(v slog.Value) string {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return strconv.Quote(v.String())
	case slog.KindAny:
		switch x := v.Any().(type) {
		case netip.AddrPort:
			return x.String()
		case error:
			return strconv.Quote(x.Error())
		case map[string]any, []string:
			text, err := json.Marshal(x)
			if err == nil {
				return string(text)
			}
		}
		return strconv.Quote(v.String())
	}
	return v.String()
}

// jsonValue keeps numbers numbers; everything else becomes a string.
func jsonValue(v slog.Value) string {
	v = v.Resolve()
	switch v.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool:
		return v.String()
	case slog.KindAny:
		switch x := v.Any().(type) {
		case map[string]any, []string:
			text, err := json.Marshal(x)
			if err == nil {
				return string(text)
			}
		}
	}
	return quoteJSON(v.String())
}

func quoteJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // a string always can be
		return `""`
	}
	return string(text)
}

// levels are the least levels of lines, by scope.
type levels struct {
	all    slog.Level
	scopes map[string]slog.Level
}

const levelOff = slog.Level(100)

// parseLevels reads a list such as "info" or "warn,access=info". Where no level
// stands alone, scopes that are not named are off; the empty list means info.
func parseLevels(text string) (levels, error) {
	l := levels{all: slog.LevelInfo, scopes: map[string]slog.Level{}}
	if text == "" {
		return l, nil
	}
	l.all = levelOff
	for part := range strings.SplitSeq(text, ",") {
		scope, name, scoped := strings.Cut(strings.TrimSpace(part), "=")
		if !scoped {
			name = scope
		}
		var level slog.Level
		switch name {
		case "off":
			level = levelOff
		case "error":
			level = slog.LevelError
		case "warn":
			level = slog.LevelWarn
		case "info":
			level = slog.LevelInfo
		case "debug", "trace":
			level = slog.LevelDebug
		default:
			return l, fmt.Errorf("level %q; want off, error, warn, info, debug or trace", name)
		}
		if scoped {
			l.scopes[strings.TrimPrefix(scope, "ztunnel::")] = level
		} else {
			l.all = level
		}
	}
	return l, nil
}

func (l levels) of(scope string) slog.Level {
	if v, ok := l.scopes[scope]; ok {
		return v
	}
	return l.all
}

func (l levels) least() slog.Level {
	least := l.all
	for _, v := range l.scopes {
		least = min(least, v)
	}
	return least
}
