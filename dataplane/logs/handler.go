package logs

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// handler is the slog.Handler of an Output.
type handler struct {
	out    *Output
	scope  string
	prefix string // of keys, from groups
	attrs  []slog.Attr
}

// Handler writes the lines of the program. A logger's scope is the value of the
// attribute KeyScope that it was given by With.
func (o *Output) Handler() slog.Handler { return &handler{out: o, scope: ScopeApp} }

// Enabled asks the levels, for the logger's scope.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool {
	return h.out.Levels.Enabled(h.scope, l)
}

// WithAttrs keeps attributes for every line; KeyScope sets the scope.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		if a.Key == KeyScope && h.prefix == "" {
			c.scope = a.Value.Resolve().String()
			continue
		}
		a.Key = h.prefix + a.Key
		c.attrs = append(c.attrs, a)
	}
	return &c
}

// WithGroup puts the name before all keys that follow.
func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	if name != "" {
		c.prefix += name + "."
	}
	return &c
}

// Handle writes one line.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	l := line{format: h.out.format}
	l.begin(r.Time, levelName(r.Level), h.scope, r.Message)
	for _, a := range h.attrs {
		l.attr("", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		l.attr(h.prefix, a)
		return true
	})
	l.end()
	return h.out.write(l.buf)
}

// attr adds an attribute: strings, durations and errors in quotes; numbers,
// addresses and what else names itself without.
func (l *line) attr(prefix string, a slog.Attr) {
	v, key := a.Value.Resolve(), prefix+a.Key
	switch v.Kind() {
	case slog.KindString:
		l.text(key, v.String())
	case slog.KindInt64, slog.KindUint64, slog.KindBool:
		l.literal(key, v.String())
	case slog.KindFloat64:
		l.any(key, v.Float64())
	case slog.KindDuration:
		l.text(key, v.Duration().String())
	case slog.KindTime:
		l.displayed(key, v.Time().UTC().Format(time.RFC3339Nano))
	case slog.KindGroup:
		if a.Key != "" {
			key += "."
		}
		for _, inner := range v.Group() {
			l.attr(key, inner)
		}
	case slog.KindAny, slog.KindLogValuer:
		l.any(key, v.Any())
	}
}

func (l *line) any(key string, v any) {
	switch x := v.(type) {
	case nil:
		l.literal(key, "null")
	case netip.AddrPort:
		l.displayed(key, x.String())
	case error:
		l.text(key, x.Error())
	case encoding.TextMarshaler:
		l.displayed(key, fmt.Sprint(x))
	case fmt.Stringer:
		l.text(key, x.String())
	default:
		text, err := json.Marshal(v) // a list, a map or a struct
		if err != nil {
			l.text(key, fmt.Sprint(v))
			return
		}
		l.literal(key, string(text))
	}
}

// displayed adds text without quotes where the format allows it.
func (l *line) displayed(key, v string) {
	if l.format == JSON {
		l.text(key, v)
	} else {
		l.literal(key, v)
	}
}
