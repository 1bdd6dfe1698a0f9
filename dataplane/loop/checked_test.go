//go:build checked

package loop_test

import (
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

func TestCheckedOffTheThread(t *testing.T) {
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	onloop.Do(t, l, func() {})
	var timer loop.Timer
	for name, fn := range map[string]func(){
		"Flush":  func() { l.Flush(runner(func() {})) },
		"Again":  func() { l.Again(runner(func() {})) },
		"Arm":    func() { l.Arm(&timer, 0, fired(func() {})) },
		"Disarm": func() { l.Disarm(&timer) },
		"Add":    func() { l.Add(bell(t), 0, nil) },
		"Remove": func() { l.Remove(0) },
		"Local":  func() { l.Local(0, nil) },
	} {
		if text := panics(fn); !strings.Contains(text, "off the loop's thread") {
			t.Errorf("%s from another thread: %q; want a panic that says so", name, text)
		}
	}
}
