package main

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// accessLog is lines as the proxy writes them, of one client and target each.
func accessLog(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		f := strings.Fields(l) // client target direction reason up spliced
		fmt.Fprintf(&b, `{"level":"info","scope":"access","message":"connection complete","src.addr":%q,"dst.addr":%q,"direction":%q,"reason":%q,"up_bytes":%s,"up_spliced":%s,"down_bytes":10,"down_spliced":0}`+"\n",
			f[0], f[1], f[2], f[3], f[4], f[5])
	}
	return b.String()
}

func TestJudge(t *testing.T) {
	const client, target = "198.51.100.1", "198.51.100.2:8080"
	for _, tt := range []struct {
		name    string
		log     string
		bulk    bool
		path    string
		engines string
		err     string
	}{
		{"nothing", "", false, "", "", "not logged"},
		{"another target", accessLog("198.51.100.1:4000 198.51.100.2:8081 inbound eof 5 0"), false, "", "", "not logged"},
		{"another client", accessLog("198.51.100.3:4000 198.51.100.2:8080 inbound eof 5 0"), false, "", "", "not logged"},
		{"one way", accessLog("198.51.100.1:4000 198.51.100.2:8080 inbound eof 5 0"), false, "[inbound]", "copy/copy", ""},
		{"both ways", accessLog("198.51.100.1:4000 198.51.100.2:8080 outbound eof 5 0", "198.51.100.1:4000 198.51.100.2:8080 inbound eof 5 0"),
			false, "[inbound outbound]", "copy/copy", ""},
		{"cut", accessLog("198.51.100.1:4000 198.51.100.2:8080 inbound server_reset 5 0"), false, "", "", "server_reset"},
		{"bulk", accessLog("198.51.100.1:4000 198.51.100.2:8080 inbound eof 100 0", "198.51.100.1:4001 198.51.100.2:8080 inbound eof 9000 8900"),
			true, "[inbound]", "splice/copy", ""},
		{"bulk that was copied", accessLog("198.51.100.1:4001 198.51.100.2:8080 inbound eof 9000 100"), true, "[inbound]", "", "100 of 9000"},
		{"not JSON", "panic: no\n" + accessLog("198.51.100.1:4000 198.51.100.2:8080 inbound eof 5 0"), false, "[inbound]", "copy/copy", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := judge(tt.log, netip.MustParseAddrPort(target), netip.MustParseAddr(client), tt.bulk)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v; want an error with %q", err, tt.err)
				}
				return
			}
			if err != nil || fmt.Sprint(got.path) != tt.path || got.engines != tt.engines {
				t.Errorf("got %v %s, %v; want %s %s", got.path, got.engines, err, tt.path, tt.engines)
			}
		})
	}
}
