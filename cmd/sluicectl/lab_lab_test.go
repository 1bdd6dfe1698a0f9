package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// sluicectl runs a command line in this process.
func sluicectl(args ...string) (string, error) {
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), err
}

func TestLabCommandLine(t *testing.T) {
	lab.Require(t)
	name := fmt.Sprintf("c%d", os.Getpid())
	t.Cleanup(func() {
		if l, err := lab.Open(name); err == nil { // the test has failed half way
			l.Close()
		}
	})
	for _, tt := range []struct {
		name string
		args string
		want string // in the output
		err  string // in the error; "" for none
	}{
		{"nothing there", "status", "", "is not up"},
		{"unknown pod", "up --nodes 1 --pods 1 --hosts 0 --no-ipv6 p7", "", "names [p7]"},
		{"negative", "up --nodes -1", "", "no negative number"},
		{"up", "up --nodes 1 --pods 2 --hosts 1 --no-ipv6 p2", "198.51.100.2 203.0.113.2   -  ", ""},
		{"up twice", "up --nodes 1", "", "already up"},
		{"exec", "exec p1 -- ip -o addr show eth0", "2001:db8:0:2::1/128", ""},
		{"exec a route", "exec p1 -- ip route get 192.0.2.254", "via 192.0.2.1 dev eth0", ""},
		{"exec fails", "exec p1 -- sh -c exit_3", "", "exit status 3"},
		{"exec where", "exec p9 -- true", "", "it has [n1 p1 p2 h1]"},
		{"status", "status", "--name " + name + " exec n1 -- ip addr", ""},
		{"down", "down", "is gone", ""},
		{"down again", "down", "", "is not up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"lab", "--name", name}
			for a := range strings.FieldsSeq(tt.args) {
				args = append(args, strings.ReplaceAll(a, "_", " "))
			}
			out, err := sluicectl(args...)
			if !strings.Contains(out, tt.want) {
				t.Errorf("output %q lacks %q", out, tt.want)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v; want %q", err, tt.err)
			}
		})
	}
}
