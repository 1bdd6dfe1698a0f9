package agent

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// good is an enrolment that is accepted; tests change one field of it.
func good() Request {
	return Request{Version: 1, Op: OpEnroll, Name: "web", Namespace: "shop", ServiceAccount: "front", Netns: "/run/netns/web"}
}

func encodeRequest(t testing.TB, r Request) []byte {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseRequest(t *testing.T) {
	with := func(change func(*Request)) Request {
		r := good()
		change(&r)
		return r
	}
	long := strings.Repeat("n", maxName)
	for _, tt := range []struct {
		name string
		in   Request
		want string // part of the refusal; "" is accepted
	}{
		{"enroll", good(), ""},
		{"descriptor only", with(func(r *Request) { r.Netns = "" }), ""},
		{"longest names", with(func(r *Request) { r.Name, r.Namespace, r.ServiceAccount, r.UID = long, long, "sa", "u" }), ""},
		{"list", Request{Version: 1, Op: OpList}, ""},
		{"unenroll", Request{Version: 1, Op: OpUnenroll, UID: "shop/web", Force: true}, ""},

		{"version", with(func(r *Request) { r.Version = 2 }), "version 2"},
		{"op", with(func(r *Request) { r.Op = "drop" }), `"drop"`},
		{"no name", with(func(r *Request) { r.Name = "" }), "name is empty"},
		{"no service account", with(func(r *Request) { r.ServiceAccount = "" }), "service_account is empty"},
		{"long name", with(func(r *Request) { r.Name = long + "n" }), "at most 253"},
		{"space", with(func(r *Request) { r.Namespace = "a b" }), "printed"},
		{"newline in uid", with(func(r *Request) { r.UID = "a\nb" }), "printed"},
		{"all too long for a packet", with(func(r *Request) {
			r.Name, r.Namespace, r.ServiceAccount = long, long, long
		}), "too long for a packet"},
		{"relative path", with(func(r *Request) { r.Netns = "web" }), "absolute path"},
		{"unclean path", with(func(r *Request) { r.Netns = "/run/../etc/x" }), "clean"},
		{"mode", with(func(r *Request) { r.Mode = "fast" }), "fast"},
		{"force", with(func(r *Request) { r.Force = true }), "force"},
		{"time", with(func(r *Request) { r.TimeoutMS = -1 }), "timeout_ms"},
		{"much time", with(func(r *Request) { r.TimeoutMS = 1 << 30 }), "timeout_ms"},
		{"unenroll nobody", Request{Version: 1, Op: OpUnenroll}, "uid is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRequest(encodeRequest(t, tt.in))
			if tt.want != "" {
				if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %+v, %v; want a refusal about %q", got, err, tt.want)
				}
				return
			}
			want := tt.in
			if want.Op == OpEnroll && want.UID == "" {
				want.UID = want.Namespace + "/" + want.Name
			}
			if err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
	for name, text := range map[string]string{
		"empty":         "",
		"not JSON":      "enroll web",
		"unknown field": `{"version":1,"op":"list","color":"red"}`,
		"two values":    `{"version":1,"op":"list"}{}`,
		"not UTF-8":     "{\"version\":1,\"op\":\"unenroll\",\"uid\":\"\xff\"}",
		"wrong type":    `{"version":"1","op":"list"}`,
		"huge":          `{"version":1,"op":"list"` + strings.Repeat(" ", maxRequest) + `}`,
	} {
		if r, err := ParseRequest([]byte(text)); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: read %+v, %v; want a refusal", name, r, err)
		}
	}
}

func TestResponseFits(t *testing.T) {
	huge := strings.Repeat("<\x01é", 5000)
	long := strings.Repeat("n", maxName)
	r := Response{Error: huge, Note: huge, More: true, Pod: &Status{
		UID: long, Name: long, Namespace: long, ServiceAccount: long, Netns: "/" + strings.Repeat("p", maxPath-1),
		Phase: Enrolled, Mode: "direct", LastError: huge,
	}}
	b := r.encode()
	if len(b) > maxResponse {
		t.Errorf("%d bytes; at most %d are read", len(b), maxResponse)
	}
	got, err := ParseResponse(b)
	if err != nil || !got.More || got.Pod == nil || got.Pod.UID != long || !strings.HasPrefix(huge, strings.TrimSuffix(got.Error, "…")) {
		t.Errorf("read back %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"version":  `{"version":7}`,
		"unknown":  `{"version":1,"x":1}`,
		"not JSON": `no`,
	} {
		if r, err := ParseResponse([]byte(text)); err == nil {
			t.Errorf("%s: read %+v", name, r)
		}
	}
}

// FuzzRequest reads what a stranger sends to the enrolment socket. What is
// accepted stays the same when it is written and read again, and can be told to a
// proxy.
func FuzzRequest(f *testing.F) {
	f.Add(encodeRequest(f, good()))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := ParseRequest(in)
		if err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatalf("refused with %v, which does not say so", err)
			}
			return
		}
		again, err := ParseRequest(encodeRequest(t, r))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		if r.limit() <= 0 || r.limit() > maxTimeout {
			t.Fatalf("waits for %v", r.limit())
		}
		if r.Op == OpEnroll {
			name := store("/s").file(r.UID)
			if strings.Count(name, "/") != 2 || len(name) > 200 {
				t.Fatalf("uid %q makes the file %q", r.UID, name)
			}
		}
	})
}
