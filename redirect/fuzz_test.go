package redirect

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzIntent reads any text. What is taken survives writing and reading, and
// makes a plan unless its mode is not ours to program.
func FuzzIntent(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"mode":"direct","dns":true}`, `{"mode":"redirect"}`, `{"require":["socket"]}`,
		`{"probe4":"192.0.2.1","probe6":"2001:db8::1"}`, `{"probe6":"fe80::1%x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := ParseIntent(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(in)
		if err != nil {
			t.Fatalf("write %+v: %v", in, err)
		}
		back, err := ParseIntent(again)
		if err != nil || !equalIntents(back, in) {
			t.Fatalf("%+v became %s, then %+v, %v", in, again, back, err)
		}
		p, err := NewPlan(in)
		if (err == nil) != (in.Mode == ModeDirect) {
			t.Fatalf("plan of %+v: %v", in, err)
		}
		if err == nil && len(p.Table.Chains) == 0 {
			t.Fatalf("plan of %+v is empty", in)
		}
	})
}

// equalIntents takes an empty list for none.
func equalIntents(a, b Intent) bool {
	if len(a.Require) == 0 && len(b.Require) == 0 {
		a.Require, b.Require = nil, nil
	}
	return reflect.DeepEqual(a, b)
}
