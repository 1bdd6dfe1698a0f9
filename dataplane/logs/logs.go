// Package logs writes what people and log collectors read, in the format of the
// mesh's own proxy: one line per event of the program, by slog, and one line per
// flow, from the records that loops leave in their rings.
//
// Data enters by Handler and by Drain, and leaves as whole lines to one writer.
// Owns: nothing but its buffers. Threads: everything may be called from anywhere
// but a loop, whose thread must never wait for whoever reads the log; Drain is one
// goroutine.
package logs

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// A Format is how a line is laid out.
type Format uint8

// The formats.
const (
	Plain Format = iota // tabs between the parts, key=value for fields
	JSON                // one object
)

// ParseFormat reads plain or json.
func ParseFormat(s string) (Format, error) {
	switch s {
	case "plain":
		return Plain, nil
	case "json":
		return JSON, nil
	}
	return Plain, fmt.Errorf("want plain or json, not %q", s)
}

func (f Format) String() string {
	if f == JSON {
		return "json"
	}
	return "plain"
}

// An Output is where lines go. Nothing is dropped: who writes waits for the
// reader.
type Output struct {
	Levels *Levels // which lines are written; may be changed at any time
	format Format

	failed atomic.Uint64

	mu sync.Mutex // held while a line is written
	w  io.Writer
}

// New writes to w, which is not closed.
func New(w io.Writer, format Format, levels *Levels) *Output {
	return &Output{Levels: levels, format: format, w: w}
}

// Failed is how often the writer refused lines, which were lost.
func (o *Output) Failed() uint64 { return o.failed.Load() }

// write passes on whole lines.
func (o *Output) write(lines []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.w.Write(lines)
	if err != nil {
		o.failed.Add(1)
	}
	return err
}
