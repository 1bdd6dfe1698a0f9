package admin_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// What one reading of /memstats may allocate in this process, where the client is
// too, and how much readings may differ: budget tests take the cost of a reading
// off what they measure.
const (
	readingMallocs = 250
	readingSpread  = 60
)

func TestMemstatsBudget(t *testing.T) {
	v := serve(t, newModel(t))
	c := http.Client{Timeout: testkit.Wait}
	defer c.CloseIdleConnections()
	read := func() uint64 {
		resp, err := c.Get(v.admin + "/memstats")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var m struct{ Mallocs uint64 }
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
			t.Fatal(err)
		}
		return m.Mallocs
	}
	read()
	last := read()
	least, most := uint64(1<<62), uint64(0)
	for range 20 {
		now := read()
		least, most = min(least, now-last), max(most, now-last)
		last = now
	}
	t.Logf("a reading costs %d to %d allocations, the client's included", least, most)
	if most > readingMallocs || most-least > readingSpread {
		t.Errorf("a reading costs %d to %d allocations; budget %d, and %d between them", least, most, readingMallocs, readingSpread)
	}
}
