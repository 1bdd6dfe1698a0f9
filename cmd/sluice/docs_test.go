package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

const page = "../../docs/operating.md"

// Every flag and variable is on the page, with its default, and nothing else is.
func TestSettingsAreDocumented(t *testing.T) {
	rows := testkit.Table(t, page, "## Settings")
	for _, s := range new(settings).table() {
		i := slices.IndexFunc(rows, func(r []string) bool { return r[0] == "`--"+s.flag+"`" })
		if i < 0 {
			t.Errorf("--%s is not on the page", s.flag)
			continue
		}
		row := rows[i]
		rows = slices.Delete(rows, i, i+1)
		if got := strings.Join(testkit.Code(row[1]), ""); got != s.standard {
			t.Errorf("--%s: default %q on the page, is %q", s.flag, got, s.standard)
		}
		names := []string{s.variable()} // the strongest first
		for _, v := range slices.Backward(variables()) {
			if v.flag == s.flag {
				names = append(names, v.name)
			}
		}
		if got := testkit.Code(row[2]); !slices.Equal(got, names) {
			t.Errorf("--%s: variables %q on the page, are %q", s.flag, got, names)
		}
		if row[3] == "" {
			t.Errorf("--%s has no meaning on the page", s.flag)
		}
	}
	for _, row := range rows {
		t.Errorf("%s is on the page; there is no such flag", row[0])
	}

	want := []string{"ISTIO_META_ISTIO_VERSION"} // read for the build
	for _, v := range variables() {
		if v.flag == "" {
			want = append(want, v.name)
		}
	}
	var got []string
	for _, row := range testkit.Table(t, page, "Variables without a flag:") {
		got = append(got, testkit.Code(row[0])...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("variables without a flag: %q on the page, are %q", got, want)
	}
}
