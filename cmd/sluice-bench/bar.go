package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-mesh/sluice/bench/scenario"
)

const barWidth = 30

// A bar shows how far a run is: on a terminal as a bar that is drawn over, else
// as a line now and then.
type bar struct {
	w        io.Writer
	terminal bool
	last     time.Time
	drawn    bool
}

func newBar(w io.Writer) *bar {
	b := &bar{w: w}
	if f, ok := w.(*os.File); ok {
		st, err := f.Stat()
		b.terminal = err == nil && st.Mode()&os.ModeCharDevice != 0
	}
	return b
}

func (b *bar) show(p scenario.Progress) {
	const every = 10 * time.Second
	if !b.terminal && time.Since(b.last) < every {
		return
	}
	b.last = time.Now()
	left := "?"
	if p.Done > 0 {
		left = p.Left.Round(time.Second).String()
	}
	text := fmt.Sprintf("%d/%d, %s left  %s", p.Done, p.Total, left, p.Now)
	if !b.terminal {
		fmt.Fprintln(b.w, text)
		return
	}
	full := barWidth * p.Done / max(p.Total, 1)
	fmt.Fprintf(b.w, "\r\033[K[%s%s] %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), text)
	b.drawn = true
}

func (b *bar) end() {
	if b.drawn {
		fmt.Fprintln(b.w)
	}
}
