package h2

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

func TestParseAuthority(t *testing.T) {
	for _, tt := range []struct{ in, want string }{ // "" is refused
		{"192.0.2.1:80", "192.0.2.1:80"},
		{"[2001:db8::1]:8080", "[2001:db8::1]:8080"},
		{"[::]:1", "[::]:1"},
		{"[::ffff:192.0.2.1]:80", "[::ffff:192.0.2.1]:80"},
		{"[2001:DB8:0:0:0:0:0:1]:80", "[2001:db8::1]:80"},
		{"cart.shop.svc.cluster.local:80", "cart.shop.svc.cluster.local:80"},
		{"Cart.Shop:65535", "cart.shop:65535"},
		{"a_b:1", "a_b:1"},
		{"cart.:80", "cart.:80"},
		{"192.0.2.1:00080", "192.0.2.1:80"},
		{"192.0.2.1", ""},
		{"192.0.2.1:", ""},
		{"192.0.2.1:0", ""},
		{"192.0.2.1:65536", ""},
		{"192.0.2.1:000080", ""},
		{"192.0.2.1:+80", ""},
		{"192.0.2.1:80 ", ""},
		{"192.0.2:80", ""},
		{"192.0.2.256:80", ""},
		{"192.0.2.01:80", ""},
		{"192.0.2.1.1:80", ""},
		{"2001:db8::1:80", ""},
		{"[192.0.2.1]:80", ""},
		{"[2001:db8::1%1]:80", ""},
		{"[2001:db8::1]80", ""},
		{"[]:80", ""},
		{"[:80", ""},
		{":80", ""},
		{".:80", ""},
		{"a..b:80", ""},
		{"user@a:80", ""},
		{"a/b:80", ""},
		{"a b:80", ""},
		{"\xc3\xbc:80", ""},
		{"", ""},
		{strings.Repeat("a", 254) + ":80", ""},
	} {
		a, ok := ParseAuthority([]byte(tt.in))
		if ok != (tt.want != "") || ok && a.String() != tt.want {
			t.Errorf("%q: %v, %v; want %q", tt.in, a, ok, tt.want)
		}
		if ok && (a.Addr.IsValid() == (a.Host != "") || a.Addr.IsValid() && a.Addr.Port() != a.Port) {
			t.Errorf("%q: %+v", tt.in, a)
		}
	}
	if a := AddrAuthority(netip.MustParseAddrPort("[2001:db8::2]:443")); a.Port != 443 || a.String() != "[2001:db8::2]:443" {
		t.Errorf("%+v", a)
	}
}

// FuzzAuthority compares addresses with netip, which knows zones besides, and checks
// that names survive.
func FuzzAuthority(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		a, ok := ParseAuthority(in)
		want, err := netip.ParseAddrPort(string(in))
		theirs := err == nil && want.Addr().Zone() == "" && want.Port() != 0
		if _, port, _ := strings.Cut(string(in[max(0, bytes.LastIndexByte(in, ':')):]), ":"); len(port) > 5 {
			theirs = false
		}
		if theirs != (ok && a.Host == "") || theirs && a.Addr != want {
			t.Fatalf("%q: %+v, %v; netip has %v, %v", in, a, ok, want, err)
		}
		if !ok {
			return
		}
		again, ok := ParseAuthority(a.Append(nil))
		if !ok || again != a {
			t.Fatalf("%q: %+v became %+v", in, a, again)
		}
		if a.Port == 0 || len(a.Host) > maxHost || a.Host != strings.ToLower(a.Host) || strings.ContainsAny(a.Host, " /@:[]\r\n\x00") {
			t.Fatalf("%q: %+v", in, a)
		}
	})
}

func TestForwarded(t *testing.T) {
	for _, tt := range []struct{ client, host, want string }{
		{"192.0.2.1:5000", "", `for="192.0.2.1:5000"`},
		{"[::1]:80", "", `for="[::1]:80"`},
		{"[2001:db8::1]:80", "cart.shop.svc.cluster.local", `for="[2001:db8::1]:80";host=cart.shop.svc.cluster.local`},
	} {
		got := AppendForwarded(nil, netip.MustParseAddrPort(tt.client), tt.host)
		if string(got) != tt.want || string(ForwardedHost(got)) != tt.host {
			t.Errorf("%s, host %q; want %s", got, ForwardedHost(got), tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{`host=a`, "a"}, {`host="a.b"`, "a.b"}, {` host=a ; for=x`, "a"}, {`for="x";host=a;host=b`, "a"},
		{`for=x`, ""}, {`host=`, ""}, {`host="";host=b`, ""}, {"host=\xc3\xbc", ""}, {`xhost=a`, ""}, {`;;;`, ""}, {``, ""},
	} {
		if got := ForwardedHost([]byte(tt.in)); string(got) != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

// FuzzForwarded checks that a name found is visible text within the field, and that
// ours is found again.
func FuzzForwarded(f *testing.F) {
	client := netip.MustParseAddrPort("[2001:db8::1]:80")
	f.Fuzz(func(t *testing.T, in []byte) {
		host := ForwardedHost(in)
		if host == nil {
			return
		}
		if len(host) == 0 || !bytes.Contains(in, host) || !printable(host) || bytes.IndexByte(host, ';') >= 0 {
			t.Fatalf("%q: %q", in, host)
		}
		if bytes.ContainsAny(host, "\" \t") {
			return // not a name, but nothing that we judge
		}
		if got := ForwardedHost(AppendForwarded(nil, client, string(host))); !bytes.Equal(got, host) {
			t.Fatalf("%q became %q", host, got)
		}
	})
}

func TestBaggage(t *testing.T) {
	full := Baggage{Cluster: "c", Namespace: "n", Kind: "deployment", Workload: "w", Service: "s", Revision: "v", Region: "r", Zone: "z"}
	const text = "k8s.cluster.name=c,k8s.namespace.name=n,k8s.deployment.name=w,service.name=s,service.version=v,cloud.region=r,cloud.availability_zone=z"
	if got := string(full.Append(nil)); got != text || ParseBaggage(got) != full {
		t.Errorf("%s, back %+v", got, ParseBaggage(got))
	}
	for _, kind := range []string{"deployment", "cronjob", "pod", "job"} {
		g := Baggage{Kind: kind, Workload: "w"}
		if got := string(g.Append(nil)); got != "k8s."+kind+".name=w" || ParseBaggage(got) != g {
			t.Errorf("%s: %s", kind, got)
		}
	}
	for _, tt := range []struct {
		name string
		in   Baggage
		want string
	}{
		{"nothing", Baggage{}, ""},
		{"empty values are left out", Baggage{Namespace: "n", Zone: "z"}, "k8s.namespace.name=n,cloud.availability_zone=z"},
		{"what can't be carried, too", Baggage{Cluster: "a,service.name=x", Namespace: "n", Service: "a=b", Region: "a\r\nb", Zone: " z"}, "k8s.namespace.name=n"},
		{"a workload of no known kind, too", Baggage{Kind: "daemonset", Workload: "w"}, ""},
	} {
		if got := string(tt.in.Append(nil)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name, in string
		want     Baggage
	}{
		{"nothing", "", Baggage{}},
		{"empty values", "k8s.cluster.name=,service.name=s", Baggage{Service: "s"}},
		{"the last counts", "service.name=a,service.name=b", Baggage{Service: "b"}},
		{"the second piece is the value", "service.name=a=b", Baggage{Service: "a"}},
		{"no value", "service.name", Baggage{}},
		{"unknown keys", "x=y,service.name=s,k8s.node.name=n", Baggage{Service: "s"}},
		{"blanks are not trimmed", " service.name=a,service.version= b", Baggage{Revision: " b"}},
		{"several lines, joined", "service.name=a,,,cloud.region=r", Baggage{Service: "a", Region: "r"}},
		{"not ASCII", "service.name=a,cloud.region=\xc3\xbc", Baggage{}},
	} {
		if got := ParseBaggage(tt.in); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// FuzzBaggage checks that what was read can be written and read again.
func FuzzBaggage(f *testing.F) {
	f.Fuzz(func(t *testing.T, in string) {
		g := ParseBaggage(in)
		out := g.Append(nil)
		if !validValue(out) || len(out) > 0 && !printable(out) {
			t.Fatalf("%q: wrote %q", in, out)
		}
		again := ParseBaggage(string(out))
		if !bytes.Equal(again.Append(nil), out) {
			t.Fatalf("%q: %q became %q", in, out, again.Append(nil))
		}
	})
}

func TestTraceParent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tp, ok := ParseTraceParent([]byte(good))
	if !ok || string(tp.Append(nil)) != strings.TrimSuffix(good, "01")+"00" {
		t.Errorf("%s, %v", tp.Append(nil), ok)
	}
	for name, in := range map[string]string{
		"too few dashes":   strings.Repeat("0", 55),
		"nothing":          "",
		"short":            good[:54],
		"long":             good + "0",
		"upper case":       strings.ToUpper(good),
		"version ff":       "ff" + good[2:],
		"trace of zeros":   "00-" + strings.Repeat("0", 32) + good[35:],
		"span of zeros":    good[:36] + strings.Repeat("0", 16) + good[52:],
		"not hexadecimal":  strings.Replace(good, "f", "g", 1),
		"flags of nothing": good[:53] + "zz",
	} {
		if got, ok := ParseTraceParent([]byte(in)); ok || got != (TraceParent{}) {
			t.Errorf("%s: taken as %s", name, got.Append(nil))
		}
	}
	later := "cc" + good[2:]
	if _, ok := ParseTraceParent([]byte(later)); !ok {
		t.Error("a later version of the same length is refused")
	}
}

// FuzzTraceParent checks that what is taken is what was there.
func FuzzTraceParent(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		tp, ok := ParseTraceParent(in)
		if !ok {
			return
		}
		if out := tp.Append(nil); !bytes.Equal(out[2:53], in[2:53]) {
			t.Fatalf("%q became %q", in, out)
		}
		if _, err := strconv.ParseUint(string(in[:2]), 16, 8); err != nil {
			t.Fatalf("%q: %v", in, err)
		}
	})
}
