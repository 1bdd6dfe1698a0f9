package redirect

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func TestParseIntent(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Intent
	}{
		{"empty", `{}`, Intent{}},
		{"direct", `{"mode":"direct","dns":true}`, Intent{DNS: true}},
		{"redirect is a mode", `{"mode":"redirect"}`, Intent{Mode: ModeRedirect}},
		{"probes", `{"probe4":"192.0.2.1","probe6":"2001:db8::1"}`,
			Intent{Probe4: netip.MustParseAddr("192.0.2.1"), Probe6: netip.MustParseAddr("2001:db8::1")}},
		{"require", ` {"require":["tproxy","socket"]} `, Intent{Require: []string{"tproxy", "socket"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseIntent([]byte(tt.text))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseIntentRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", ``, "EOF"},
		{"no object", `[]`, "array"},
		{"unknown field", `{"mod":"direct"}`, `"mod"`},
		{"unknown mode", `{"mode":"tproxy"}`, `mode "tproxy"`},
		{"number as mode", `{"mode":0}`, "number"},
		{"two values", `{} {}`, "behind the first"},
		{"IPv6 as probe4", `{"probe4":"2001:db8::1"}`, "probe4 is 2001:db8::1"},
		{"mapped as probe4", `{"probe4":"::ffff:192.0.2.1"}`, "probe4"},
		{"loopback as probe4", `{"probe4":"127.1.2.3"}`, "probe4"},
		{"broadcast as probe4", `{"probe4":"255.255.255.255"}`, "probe4"},
		{"multicast as probe6", `{"probe6":"ff02::1"}`, "probe6"},
		{"IPv4 as probe6", `{"probe6":"192.0.2.1"}`, "probe6"},
		{"link-local as probe6", `{"probe6":"fe80::1"}`, "probe6"},
		{"zone", `{"probe6":"2001:db8::1%eth0"}`, "probe6"},
		{"all faults at once", `{"probe4":"0.0.0.0","require":["a b"]}`, `"a b"`},
		{"long name", `{"require":["` + strings.Repeat("a", 32) + `"]}`, "require"},
		{"text in a name", `{"require":["socket\u0000"]}`, "require"},
		{"too many names", `{"require":[` + strings.Repeat(`"a",`, 16) + `"a"]}`, "17 expressions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseIntent([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v; want an error with %q", got, err, tt.want)
			}
			if err != nil && !reflect.DeepEqual(got, Intent{}) {
				t.Errorf("an intent beside an error: %+v", got)
			}
		})
	}
}

func TestModeText(t *testing.T) {
	for _, m := range []Mode{ModeDirect, ModeRedirect} {
		text, err := m.MarshalText()
		var back Mode
		if err == nil {
			err = back.UnmarshalText(text)
		}
		if err != nil || back != m {
			t.Errorf("%v became %q, then %v, %v", m, text, back, err)
		}
	}
	if _, err := Mode(9).MarshalText(); !errors.Is(err, ErrMode) {
		t.Errorf("mode 9: %v; want ErrMode", err)
	}
}

func TestPlanRefusesRedirectByName(t *testing.T) {
	_, err := NewPlan(Intent{Mode: ModeRedirect})
	if !errors.Is(err, ErrMode) || !strings.Contains(err.Error(), "mode redirect") {
		t.Errorf("got %v; want ErrMode that names the mode", err)
	}
	if _, err := NewPlan(Intent{Mode: 7}); !errors.Is(err, ErrMode) {
		t.Errorf("mode 7: %v; want ErrMode", err)
	}
}
