package zds_test

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-mesh/sluice/dataplane/zds"
	"google.golang.org/protobuf/proto"
	zdsapi "istio.io/istio/pkg/zdsapi"
)

func istio(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requests pairs each of our requests with Istio's message for the same.
var requests = []struct {
	ours   zds.Request
	theirs *zdsapi.WorkloadRequest
}{
	{
		zds.Request{Kind: zds.Add, UID: "u1", Info: &zds.Info{Name: "web", Namespace: "shop", ServiceAccount: "front"}},
		&zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Add{Add: &zdsapi.AddWorkload{
			Uid:          "u1",
			WorkloadInfo: &zdsapi.WorkloadInfo{Name: "web", Namespace: "shop", ServiceAccount: "front"},
		}}},
	},
	{
		zds.Request{Kind: zds.Add, UID: "u1", Info: &zds.Info{}},
		&zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Add{Add: &zdsapi.AddWorkload{Uid: "u1", WorkloadInfo: &zdsapi.WorkloadInfo{}}}},
	},
	{
		zds.Request{Kind: zds.Add, UID: "u1"},
		&zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Add{Add: &zdsapi.AddWorkload{Uid: "u1"}}},
	},
	{
		zds.Request{Kind: zds.Keep, UID: "u2"},
		&zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Keep{Keep: &zdsapi.KeepWorkload{Uid: "u2"}}},
	},
	{
		zds.Request{Kind: zds.Del, UID: "u3"},
		&zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Del{Del: &zdsapi.DelWorkload{Uid: "u3"}}},
	},
	{
		zds.Request{Kind: zds.SnapshotSent},
		&zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_SnapshotSent{SnapshotSent: &zdsapi.SnapshotSent{}}},
	},
}

func TestRequestsAreIstios(t *testing.T) {
	for _, tt := range requests {
		t.Run(tt.ours.Kind.String(), func(t *testing.T) {
			got, err := zds.ParseRequest(istio(t, tt.theirs))
			if err != nil || !reflect.DeepEqual(got, tt.ours) {
				t.Errorf("Istio's bytes read as %+v, %v; want %+v", got, err, tt.ours)
			}
			b, err := tt.ours.Append([]byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			var theirs zdsapi.WorkloadRequest
			if err := proto.Unmarshal(b[len("before"):], &theirs); err != nil || !proto.Equal(&theirs, tt.theirs) {
				t.Errorf("Istio reads ours as %v, %v; want %v", &theirs, err, tt.theirs)
			}
		})
	}
}

// Field numbers are the contract: a change of Istio's types must not go unseen.
func TestBytesOnTheWire(t *testing.T) {
	app := func(m interface {
		Append([]byte) ([]byte, error)
	}) string {
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(b)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"hello", app(zds.Hello{Version: zds.V1}), "0801"},
		{"hello with a mode", app(zds.Hello{Version: zds.V1, Modes: []string{"direct"}}), "0801" + "c23e06" + hex.EncodeToString([]byte("direct"))},
		{"del", app(zds.Request{Kind: zds.Del, UID: "a"}), "1203120161"},
		{"keep", app(zds.Request{Kind: zds.Keep, UID: "a"}), "2a030a0161"},
		{"snapshot_sent", app(zds.Request{Kind: zds.SnapshotSent}), "1a00"},
		{"ack", app(zds.Response{}), "0a00"},
		{"nack", app(zds.Response{Error: "x"}), "0a030a0178"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is %s; want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestHelloIsIstiosWithModes(t *testing.T) {
	ours := zds.Hello{Version: zds.V1, Modes: []string{zds.ModeDirect, zds.ModeRedirect}}
	b, err := ours.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	var theirs zdsapi.ZdsHello
	if err := proto.Unmarshal(b, &theirs); err != nil || theirs.GetVersion() != zdsapi.Version_V1 {
		t.Errorf("Istio reads our hello as version %v, %v; want V1", theirs.GetVersion(), err)
	}
	if got, err := zds.ParseHello(b); err != nil || !reflect.DeepEqual(got, ours) {
		t.Errorf("we read our hello as %+v, %v; want %+v", got, err, ours)
	}
	// Istio passing it on keeps the modes: they are an unknown field to it.
	if got, err := zds.ParseHello(istio(t, &theirs)); err != nil || !reflect.DeepEqual(got, ours) {
		t.Errorf("after Istio we read %+v, %v; want %+v", got, err, ours)
	}
	plain, err := zds.ParseHello(istio(t, &zdsapi.ZdsHello{Version: zdsapi.Version_V1}))
	if err != nil || plain.Version != zds.V1 || len(plain.Modes) != 0 {
		t.Errorf("Istio's hello reads as %+v, %v", plain, err)
	}
	if !ours.Serves(zds.ModeDirect) || plain.Serves(zds.ModeDirect) || !plain.Serves(zds.ModeRedirect) {
		t.Error("a proxy serves the modes that it names, and redirect when it names none")
	}
}

func TestErrorTextIsCut(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 2000), "bad \xff byte", strings.Repeat("x", 1007), ""} {
		b, err := zds.Response{Error: text}.Append(nil)
		if err != nil || len(b) > zds.MaxPacket {
			t.Fatalf("%d bytes, %v; want at most %d", len(b), err, zds.MaxPacket)
		}
		var theirs zdsapi.WorkloadResponse
		if err := proto.Unmarshal(b, &theirs); err != nil {
			t.Errorf("Istio can't read it: %v", err)
		}
		got, err := zds.ParseResponse(b)
		if err != nil || !utf8.ValidString(got.Error) || (text == "") != (got.Error == "") {
			t.Errorf("read back %q, %v", got.Error, err)
		}
		if len(text) == 1007 && got.Error != text {
			t.Error("a text that fits was cut")
		}
	}
}

func TestTooLongIsRefused(t *testing.T) {
	long := strings.Repeat("n", 253)
	r := zds.Request{Kind: zds.Add, UID: "u", Info: &zds.Info{Name: long, Namespace: long, ServiceAccount: long}}
	if b, err := r.Append(nil); err != nil || len(b) > zds.MaxPacket {
		t.Errorf("names of the greatest length: %d bytes, %v; want them to fit", len(b), err)
	}
	r.UID = strings.Repeat("u", 300)
	if _, err := r.Append(nil); err == nil {
		t.Error("a request of more than a packet was written")
	}
	if _, err := zds.ParseRequest(istio(t, &zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Del{Del: &zdsapi.DelWorkload{Uid: strings.Repeat("u", 1100)}}})); err == nil {
		t.Error("a request of more than a packet was read")
	}
}

func TestMalformed(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":           {},
		"unknown payload": {0x22, 0x00}, // field 4
		"cut":             {0x0a, 0x05, 0x0a},
		"uid not UTF-8":   {0x12, 0x03, 0x12, 0x01, 0xff},
		"group end":       {0x0c},
	} {
		if r, err := zds.ParseRequest(b); err == nil {
			t.Errorf("%s read as %+v", name, r)
		}
	}
	if r, err := zds.ParseResponse(nil); err == nil {
		t.Errorf("a response without an ack read as %+v", r)
	}
	if h, err := zds.ParseHello([]byte{0xc2, 0x3e, 0x01, 0xff}); err == nil {
		t.Errorf("a mode that is not UTF-8 read as %+v", h)
	}
}
