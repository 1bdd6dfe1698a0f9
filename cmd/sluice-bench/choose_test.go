package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/scenario"
	"github.com/sluice-mesh/sluice/bench/subject"
)

func execute(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestListNamesEverything(t *testing.T) {
	out, err := execute("list")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bulk-1-up", "churn-32-reset", "idle-9000", "nodes", "wire", "sluice", "haproxy-own", "nginx"} {
		if !strings.Contains(out, want) {
			t.Errorf("list does not name %s", want)
		}
	}
}

func TestChoice(t *testing.T) {
	f := &runFlags{
		scenarios: []string{"churn-1-*", "idle-9000"}, paths: []string{"out"}, modes: []string{"redirect"},
		builds: []string{"base=/some/folder"}, peers: []string{"mine=/opt/haproxy"}, subjects: []string{"base", "mine", "hap*"},
		strace: "once", rounds: 2, length: time.Second,
	}
	opt, err := f.chosen()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range opt.Scenarios {
		got = append(got, s.Name)
	}
	for _, s := range opt.Subjects {
		got = append(got, s.Name())
	}
	const want = "churn-1-client churn-1-server churn-1-reset idle-9000 haproxy haproxy-own base mine"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("chosen: %s; want %s", text, want)
	}
	if !opt.Subjects[2].Serves(subject.Direct) || opt.Subjects[3].Serves(subject.Direct) {
		t.Error("a build of ours serves both modes, a proxy that can't mark its sockets redirect only")
	}
}

func TestMistakesComeAllAtOnce(t *testing.T) {
	f := &runFlags{
		scenarios: []string{"bulk-9"}, paths: []string{"up"}, modes: []string{"none"}, subjects: []string{"squid"},
		builds: []string{"base"}, peers: []string{"mine", "odd=/usr/bin/odd", "haproxy=/usr/sbin/haproxy"}, strace: "often", profile: "heap",
	}
	_, err := f.chosen()
	for _, want := range []string{"bulk-9", `"up"`, `"none"`, "squid", "--build", `peer "mine"`, "odd: no description", `two subjects are named "haproxy"`, "often", `"heap"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not speak of %s", err, want)
		}
	}
}

func TestBarSaysHowFar(t *testing.T) {
	var out bytes.Buffer
	b := &bar{w: &out, terminal: true}
	b.show(scenario.Progress{Done: 3, Total: 6, Left: 90 * time.Second})
	b.end()
	if !strings.Contains(out.String(), "[###############...............] 3/6, 1m30s left") {
		t.Errorf("bar is %q", out.String())
	}
	out.Reset()
	b = &bar{w: &out}
	b.show(scenario.Progress{Total: 6})
	b.show(scenario.Progress{Done: 1, Total: 6})
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines within a moment; want 1: %q", n, out.String())
	}
}

func TestReportKnowsItsFormats(t *testing.T) {
	for _, args := range [][]string{
		{"report", "none.json"},
		{"compare", "none.json", "none.json"},
		{"compare", "one.json"},
	} {
		if out, err := execute(args...); err == nil {
			t.Errorf("%v passes: %s", args, out)
		}
	}
}
