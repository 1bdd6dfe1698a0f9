package rt

import (
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
)

func TestScript(t *testing.T) {
	p, err := redirect.NewPlan(redirect.Intent{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "direct.golden", Script(p))
	testkit.Golden(t, "direct.undo.golden", Undo(p))
}
