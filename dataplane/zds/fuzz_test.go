package zds_test

import (
	"reflect"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/zds"
	"google.golang.org/protobuf/proto"
	zdsapi "istio.io/istio/pkg/zdsapi"
)

// FuzzFrame reads one packet as each of the three messages. What is read must
// survive being written again, by us and by Istio's types, and what Istio's types
// refuse must be refused here.
func FuzzFrame(f *testing.F) {
	for _, tt := range requests {
		f.Add(istio(f, tt.theirs))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if r, err := zds.ParseRequest(in); err == nil {
			var theirs zdsapi.WorkloadRequest
			if err := proto.Unmarshal(in, &theirs); err != nil {
				t.Fatalf("Istio refuses what we read as %+v: %v", r, err)
			}
			again(t, r, zds.ParseRequest)
		}
		if r, err := zds.ParseResponse(in); err == nil {
			again(t, r, zds.ParseResponse)
		}
		if h, err := zds.ParseHello(in); err == nil {
			b := again(t, h, zds.ParseHello)
			var theirs zdsapi.ZdsHello
			if err := proto.Unmarshal(b, &theirs); err != nil || int32(theirs.GetVersion()) != h.Version {
				t.Fatalf("Istio reads our hello %+v as %v, %v", h, &theirs, err)
			}
		}
	})
}

// again writes m and reads it back. What was read from one packet is never longer
// when written: unknown fields are left out, and nothing is added.
func again[M interface {
	Append([]byte) ([]byte, error)
}](t *testing.T, m M, parse func([]byte) (M, error)) []byte {
	b, err := m.Append(nil)
	if err != nil {
		t.Fatalf("%+v can't be written: %v", m, err)
	}
	got, err := parse(b)
	if err != nil || !reflect.DeepEqual(got, m) {
		if r, ok := any(m).(zds.Response); ok && len(r.Error) > 1000 {
			return b // cut to leave room for its tags
		}
		t.Fatalf("%+v became %+v, %v", m, got, err)
	}
	return b
}
