package local

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// eachField calls the function of each field of an object, in the order of names. A
// name that has none is a fault. Names are compared as they are written: encoding/json
// alone would fold capitals.
func eachField(f *faults, at string, v json.RawMessage, known map[string]func(at string, v json.RawMessage)) {
	if isNull(v) {
		return
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(v, &object); err != nil {
		f.add(at, "want fields, not %s", excerpt(v))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		place := name
		if at != "" {
			place = at + "." + name
		}
		read, ok := known[name]
		if !ok {
			f.add(place, "unknown field; known here are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		read(place, object[name])
	}
}

// eachItem calls read for each item of a list.
func eachItem(f *faults, at string, v json.RawMessage, read func(at string, v json.RawMessage)) {
	if isNull(v) {
		return
	}
	var items []json.RawMessage
	if err := json.Unmarshal(v, &items); err != nil {
		f.add(at, "want a list, not %s", excerpt(v))
		return
	}
	for i, item := range items {
		read(index(at, i), item)
	}
}

// empty takes only what says nothing: null, "", 0, false, [] and {}.
func empty(f *faults, at string, v json.RawMessage) {
	if isNull(v) || slices.Contains([]string{`""`, "0", "false", "[]", "{}"}, string(bytes.TrimSpace(v))) {
		return
	}
	f.add(at, notServed)
}

func isNull(v json.RawMessage) bool { return string(bytes.TrimSpace(v)) == "null" }

// excerpt shows the start of a value.
func excerpt(v json.RawMessage) string {
	const most = 40
	if s := string(v); len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(string(v[:most]), "") + "…"
}
