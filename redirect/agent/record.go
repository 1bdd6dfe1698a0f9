package agent

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/redirect"
)

// A Phase is how far a pod's enrolment or leaving has come. It is written down
// before the step that it names begins.
type Phase string

// The phases of a pod. What a crash leaves in Preparing or Undoing is undone, in
// Announcing, Capturing or Leaving is brought to its end.
const (
	Preparing  Phase = "preparing"  // sysctls, route and policy rules are being made
	Announcing Phase = "announcing" // the proxy is being told
	Capturing  Phase = "capturing"  // the proxy listens; the rules are being made
	Enrolled   Phase = "enrolled"
	Leaving    Phase = "leaving" // the proxy is told to let go, then the rules go
	Undoing    Phase = "undoing" // an enrolment has failed; what it did is taken back
)

func (p Phase) known() bool {
	return slices.Contains([]Phase{Preparing, Announcing, Capturing, Enrolled, Leaving, Undoing}, p)
}

// shown reports whether proxies are told of a pod in this phase.
func (p Phase) shown() bool { return p == Announcing || p == Capturing || p == Enrolled }

// recordVersion is that of the files below the state folder.
const recordVersion = 1

// A record is what the agent knows of one pod and keeps in a file of its own, so
// that the pod outlives the agent.
type record struct {
	Version        int             `json:"version"`
	UID            string          `json:"uid"`
	Name           string          `json:"name"`
	Namespace      string          `json:"namespace"`
	ServiceAccount string          `json:"service_account"`
	Place          place           `json:"netns"`
	Intent         redirect.Intent `json:"intent"` // holds the capture mode
	Phase          Phase           `json:"phase"`
	Force          bool            `json:"force,omitempty"` // while leaving: reset what is open
}

func (r record) check() error {
	switch {
	case r.Version != recordVersion:
		return fmt.Errorf("version %d; this agent writes %d", r.Version, recordVersion)
	case !r.Phase.known():
		return fmt.Errorf("phase %q is unknown", clip(string(r.Phase)))
	case r.Place.Path == "":
		return errors.New("no path of the network namespace")
	}
	_, err := redirect.NewPlan(r.Intent)
	return errors.Join(err, checkName("uid", r.UID, maxUID))
}

// A store is the folder that holds one file for each pod. It survives the agent,
// and should not survive a reboot: no namespace does.
type store string

// file names the file of a pod: readable, and never of two uids.
func (s store) file(uid string) string {
	readable := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-' {
			return r
		}
		return '_'
	}, uid[:min(len(uid), 100)])
	sum := sha256.Sum256([]byte(uid))
	return filepath.Join(string(s), fmt.Sprintf("%s-%x.json", readable, sum[:12]))
}

// save leaves the whole record in its file, or what was there before, also when
// the machine stops in the middle.
func (s store) save(r record) (err error) {
	r.Version = recordVersion
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("state of pod %s: %w", r.UID, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the state of pod %s: %w", r.UID, err)
		}
	}()
	f, err := os.CreateTemp(string(s), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(text, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), s.file(r.UID)); err != nil {
		return err
	}
	return s.sync()
}

// drop forgets a pod. A pod that is not there is forgotten already.
func (s store) drop(uid string) error {
	if err := os.Remove(s.file(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget pod %s: %w", uid, err)
	}
	return s.sync()
}

func (s store) sync() error {
	folder, err := os.Open(string(s))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// load reads every record, in the order of their uids. A file that can't be
// believed is an error: going on without it would make the proxy drop the pod.
func (s store) load() ([]record, error) {
	entries, err := os.ReadDir(string(s))
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	var all []record
	var faults []error
	for _, e := range entries {
		path := filepath.Join(string(s), e.Name())
		if strings.HasPrefix(e.Name(), ".new-") {
			faults = append(faults, os.Remove(path)) // a crash came before its rename
			continue
		}
		r, err := readRecord(path)
		if err == nil && s.file(r.UID) != path {
			err = fmt.Errorf("holds pod %s, which belongs into %s", r.UID, s.file(r.UID))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("state file %s: %w; if its pod is gone, delete the file, else repair it", path, err))
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b record) int { return strings.Compare(a.UID, b.UID) })
	return all, errors.Join(faults...)
}

func readRecord(path string) (record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := decodeStrictly(text, &r); err != nil {
		return record{}, err
	}
	return r, r.check()
}

// info names the workload as proxies are told.
func (r record) info() zds.Info {
	return zds.Info{Name: r.Name, Namespace: r.Namespace, ServiceAccount: r.ServiceAccount}
}
