package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/dial"
)

// forever is the longest duration that is taken: enough, and far from overflow.
const forever = 10 * 365 * 24 * time.Hour

func text(at *string, what string) func(string) error {
	return func(v string) error {
		if v == "" {
			return errors.New("want " + what)
		}
		*at = v
		return nil
	}
}

// anything takes any text, also none.
func anything(at *string) func(string) error {
	return func(v string) error {
		*at = v
		return nil
	}
}

func boolean(at *bool) func(string) error {
	return func(v string) (err error) {
		*at, err = parseBool(v)
		return err
	}
}

func integer(at *int, least, most int) func(string) error {
	return func(v string) (err error) {
		*at, err = parseInt(v, least, most)
		return err
	}
}

func duration(at *time.Duration, least, most time.Duration) func(string) error {
	return func(v string) error {
		d, err := parseDuration(v)
		if err != nil || d < least || d > most {
			return fmt.Errorf("want a duration of %v to %v, such as 90s, 1h30m, 2d, or seconds", least, most)
		}
		*at = d
		return nil
	}
}

// atOnce is a duration of which 0 means no time at all, and not the default of
// whom it is for.
func atOnce(at *time.Duration) func(string) error {
	set := duration(at, 0, forever)
	return func(v string) error {
		err := set(v)
		if err == nil && *at == 0 {
			*at = 1
		}
		return err
	}
}

// address takes HOST:PORT, or nothing.
func address(at *string) func(string) error {
	return func(v string) error {
		if v != "" && v != "none" {
			_, port, err := net.SplitHostPort(v)
			if err == nil {
				_, err = parseInt(port, 0, math.MaxUint16)
			}
			if err != nil {
				return errors.New("want HOST:PORT, :PORT, or none")
			}
		}
		*at = strings.TrimPrefix(v, "none")
		return nil
	}
}

// shownValue is a text as the dump shows it.
func shownValue(kind, v string) any {
	switch kind {
	case kindBool:
		return v == "true"
	case kindInt:
		if n, err := strconv.Atoi(v); err == nil {
			return n
		}
	case kindDuration:
		if d, err := parseDuration(v); err == nil {
			return d.String()
		}
	}
	return v
}

func parseBool(v string) (bool, error) {
	if v != "true" && v != "false" {
		return false, errors.New("want true or false")
	}
	return v == "true", nil
}

func parseInt(v string, least, most int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("want a whole number of %d to %d", least, most)
	}
	return n, nil
}

// parseDuration reads Go's syntax, a bare number of seconds, or days.
func parseDuration(v string) (time.Duration, error) {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	if days, ok := strings.CutSuffix(v, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(v)
}

// parseRanges reads such as 16384-32767,10240-16383; nothing means the default.
func parseRanges(v string) ([]dial.Range, error) {
	if v == "" {
		return nil, nil
	}
	var all []dial.Range
	for part := range strings.SplitSeq(v, ",") {
		a, b, ok := strings.Cut(strings.TrimSpace(part), "-")
		first, err1 := strconv.ParseUint(a, 10, 16)
		last, err2 := strconv.ParseUint(b, 10, 16)
		if !ok || err1 != nil || err2 != nil || first == 0 || first > last {
			return nil, fmt.Errorf("%q is no range; want FIRST-LAST, both 1 to 65535", part)
		}
		all = append(all, dial.Range{First: uint16(first), Last: uint16(last)})
	}
	return all, nil
}
