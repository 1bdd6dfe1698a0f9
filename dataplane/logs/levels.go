package logs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
)

// Levels beside those of slog.
const (
	LevelTrace = slog.LevelDebug - 4
	LevelOff   = slog.LevelError + 1000 // no line has it
)

// LevelUsage says what a list of levels looks like.
const LevelUsage = `a comma-separated list of LEVEL and SCOPE=LEVEL, such as "info" or "access=off,info"; levels are off, error, warn, info, debug and trace`

// Levels say which lines are written, by scope. They may be changed at any time,
// from anywhere.
type Levels struct {
	boot directives
	now  atomic.Pointer[directives]
}

// A directive lets lines of a scope through from a level on; the scope "" stands
// for all that are not named.
type directive struct {
	scope string
	level slog.Level
}

// directives are sorted: the longest scope first, so that the first prefix that
// fits is the longest one, and the default last.
type directives []directive

// ParseLevels reads a list of levels. The last of equal scopes counts. Where no
// level stands alone, scopes that are not named are off; the empty list is info.
func ParseLevels(list string) (*Levels, error) {
	l := new(Levels)
	if strings.TrimSpace(list) == "" {
		l.boot = directives{{"", slog.LevelInfo}}
	} else {
		var err error
		if l.boot, err = l.boot.merge(list); err != nil {
			return nil, err
		}
	}
	l.now.Store(&l.boot)
	return l, nil
}

// Merge adds a list to what is in force, or to what was at the start if reset is
// set. The empty list adds nothing. A list with a fault changes nothing.
func (l *Levels) Merge(list string, reset bool) error {
	for {
		old := l.now.Load()
		from := *old
		if reset {
			from = l.boot
		}
		merged := from
		if list != "" {
			var err error
			if merged, err = from.merge(list); err != nil {
				return err
			}
		}
		if l.now.CompareAndSwap(old, &merged) {
			return nil
		}
	}
}

// Enabled reports whether a line of the scope is written.
func (l *Levels) Enabled(scope string, level slog.Level) bool {
	for _, d := range *l.now.Load() {
		if strings.HasPrefix(scope, d.scope) {
			return level >= d.level
		}
	}
	return false
}

// String is the list in force, the longest scope first and the default last.
func (l *Levels) String() string {
	var parts []string
	for _, d := range *l.now.Load() {
		if d.scope == "" {
			parts = append(parts, levelName(d.level))
		} else {
			parts = append(parts, d.scope+"="+levelName(d.level))
		}
	}
	return strings.Join(parts, ",")
}

// merge returns d with the list added; d stays as it is.
func (d directives) merge(list string) (directives, error) {
	d = slices.Clone(d)
	var faults []error
	for clause := range strings.SplitSeq(list, ",") {
		add, err := parseClause(strings.TrimSpace(clause))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		d = slices.DeleteFunc(d, func(old directive) bool { return old.scope == add.scope })
		d = append(d, add)
	}
	slices.SortFunc(d, func(a, b directive) int {
		return cmp.Or(cmp.Compare(len(b.scope), len(a.scope)), cmp.Compare(a.scope, b.scope))
	})
	return d, errors.Join(faults...)
}

// parseClause reads LEVEL, SCOPE=LEVEL or SCOPE:LEVEL. Scopes may have the prefix
// of the mesh's own proxy, whose name alone stands for all scopes.
func parseClause(clause string) (directive, error) {
	scope, name, scoped := cutLast(clause, "=")
	if !scoped {
		if scope, name, scoped = cutLast(clause, ":"); scoped && strings.HasSuffix(scope, ":") {
			scoped = false // the colons of a scope a::b
		}
	}
	if !scoped {
		scope, name = "", clause
	}
	scope = strings.TrimPrefix(scope, "ztunnel::")
	if scope == "ztunnel" {
		scope = ""
	}
	level, ok := levelOf(name)
	if !ok || scoped && clause[0] == '=' || strings.ContainsAny(scope, "=,[] ") {
		return directive{}, fmt.Errorf("%q is none of %s", clause, LevelUsage)
	}
	return directive{scope, level}, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func levelOf(name string) (slog.Level, bool) {
	for _, l := range []slog.Level{LevelOff, slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug, LevelTrace} {
		if levelName(l) == name {
			return l, true
		}
	}
	return 0, false
}

func levelName(l slog.Level) string {
	switch {
	case l >= LevelOff:
		return "off"
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	case l >= slog.LevelDebug:
		return "debug"
	}
	return "trace"
}
