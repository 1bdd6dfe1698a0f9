package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/mesh"
)

// DefaultEvery is the time between two looks at the file.
const DefaultEvery = time.Second

// Config sets up a Watcher.
type Config struct {
	Path  string
	Into  *mesh.Current // where snapshots are published
	Every time.Duration // between two looks; 0: DefaultEvery
	Log   *slog.Logger  // nil: none
}

// youth is longer than any file system takes to tell two changes apart by time.
const youth = 2 * time.Second

// A Watcher reads the file anew when it has changed. It looks: an editor renames, a
// container's volume swaps a symbolic link two directories up, and a look sees both
// without a watch on each place. A file is read only when two looks in a row, and the
// reading between them, saw the same: half a file can be valid, too. Who writes it
// does best to rename it into its place.
type Watcher struct {
	// Fixed.
	path  string
	into  *mesh.Current
	every time.Duration
	log   *slog.Logger

	// Owned by Start and then by Run.
	seen fs.FileInfo // at the last look; nil when there was no file
	done fs.FileInfo // what was dealt with: loaded, or refused
	sum  [sha256.Size]byte
	last error // of the text with that sum
	gone bool  // told that the file can't be read

	// young says that the file was so new when it was read that a change right
	// after it may have left its time as it was: it is read once more.
	young bool

	// Shared.
	mu    sync.Mutex
	stats Stats
}

// Stats is what a Watcher counts.
type Stats struct {
	Loads     uint64 // times that the file was read and published
	Failures  uint64 // times that it was refused, and the old snapshot stayed
	Workloads int    // in the snapshot
	Err       error  // why the file as it is now was refused; nil when it wasn't
}

// Start reads the file and publishes it. Without a good file there is no Watcher.
func Start(cfg Config) (*Watcher, error) {
	w := &Watcher{path: cfg.Path, into: cfg.Into, every: cfg.Every, log: cfg.Log}
	if w.every == 0 {
		w.every = DefaultEvery
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	text, info, err := w.read()
	if err != nil {
		return nil, err
	}
	if err := w.load(text, info); err != nil {
		return nil, err
	}
	return w, nil
}

// Run looks at the file until ctx ends. A file that is broken, or gone, leaves the
// snapshot as it is.
func (w *Watcher) Run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.look()
		case <-ctx.Done():
			return
		}
	}
}

// Stats returns the counts so far.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// look reads the file when it has changed and is at rest.
func (w *Watcher) look() {
	info, err := os.Stat(w.path)
	if err != nil {
		w.missing(err)
		return
	}
	rest := same(info, w.seen)
	w.seen = info
	if !rest || same(info, w.done) && !w.young {
		return
	}
	text, info, err := w.read()
	if err != nil {
		w.missing(err)
		return
	}
	w.gone = false
	if !same(info, w.seen) {
		w.seen = info // it changed while it was read; the next look decides
		return
	}
	if sha256.Sum256(text) == w.sum {
		w.done, w.young = info, false
		w.mu.Lock()
		w.stats.Err = w.last
		w.mu.Unlock()
		return
	}
	if err := w.load(text, info); err != nil {
		w.log.Error("mesh file refused; what was read before stays", "file", w.path, "error", err)
	}
}

// load publishes a text.
func (w *Watcher) load(text []byte, info fs.FileInfo) error {
	w.done, w.sum, w.last = info, sha256.Sum256(text), nil
	w.young = time.Since(info.ModTime()) < youth
	s, err := Parse(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", w.path, err)
		w.last = err
		w.mu.Lock()
		w.stats.Failures++
		w.stats.Err = err
		w.mu.Unlock()
		return err
	}
	w.into.Publish(s)
	w.mu.Lock()
	w.stats.Loads++
	w.stats.Workloads, w.stats.Err = s.Len(), nil
	w.mu.Unlock()
	w.log.Info("mesh file read", "file", w.path, "workloads", s.Len())
	return nil
}

// missing counts and tells, once, that the file can't be read.
func (w *Watcher) missing(err error) {
	w.seen, w.done = nil, nil
	if w.gone {
		return
	}
	w.gone = true
	w.mu.Lock()
	w.stats.Failures++
	w.stats.Err = err
	w.mu.Unlock()
	w.log.Error("mesh file can't be read; what was read before stays", "file", w.path, "error", err)
}

// read returns the file's text and what it was before and after the reading.
func (w *Watcher) read() ([]byte, fs.FileInfo, error) {
	f, err := os.Open(w.path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(io.LimitReader(f, MaxBytes+1)); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", w.path, err)
	}
	info, err := f.Stat()
	return text.Bytes(), info, err
}

// same reports whether two looks saw one file with one content, as far as a look can
// tell.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
