package testkit_test

import (
	"os"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestPassIsWhatItSays fails when tools/testgate says that it runs a race or
// checked build and it is none.
func TestPassIsWhatItSays(t *testing.T) { passIsWhatItSays(t) }

// TestLabPassIsWhatItSays is the same for the lab's pass.
func TestLabPassIsWhatItSays(t *testing.T) { passIsWhatItSays(t) }

// TestBudgetPassIsWhatItSays is the same for the plain pass.
func TestBudgetPassIsWhatItSays(t *testing.T) { passIsWhatItSays(t) }

func passIsWhatItSays(t *testing.T) {
	want, ok := map[string]struct{ race, checked bool }{
		"race":    {race: true},
		"checked": {checked: true},
		"lab":     {race: true, checked: true},
		"plain":   {},
		"":        {testkit.RaceEnabled, sys.Checked}, // go test by hand
	}[os.Getenv("SLUICE_PASS")]
	if !ok || want.race != testkit.RaceEnabled || want.checked != sys.Checked {
		t.Errorf("pass %q is built with race %v, checked %v", os.Getenv("SLUICE_PASS"), testkit.RaceEnabled, sys.Checked)
	}
}
