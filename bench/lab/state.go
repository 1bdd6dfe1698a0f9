package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// stateDir holds one directory per lab, with its record and its members'
// files. The paths are short: a unix socket's has room for 107 bytes.
const stateDir = "/run/sluice-lab"

// A state is the record of a lab, written before the first namespace is made and
// removed after the last one is gone.
type state struct {
	Name     string   `json:"name"`            // begins the names of the namespaces
	Owner    *owner   `json:"owner,omitempty"` // nil: the lab stands until it is closed
	Topology Topology `json:"topology"`
}

// An owner is a process whose death ends the lab.
type owner struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // since boot, in ticks: tells the process from a later one of that number
}

func (s state) dir() string { return filepath.Join(stateDir, s.Name) }

var givenName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)

// labName is what a lab with a given name is called. Those that belong to a
// process have a number there, so the two cannot meet.
func labName(given string) string { return "sluice-" + given }

// claim removes labs whose owner is dead, and records a new one.
func claim(given string, t Topology) (state, error) {
	if given != "" && !givenName.MatchString(given) {
		return state{}, fmt.Errorf("lab name %q; want a lower-case letter and up to 19 letters, digits or dashes", given)
	}
	unlock, err := lockState()
	if err != nil {
		return state{}, err
	}
	defer unlock()
	if err := prepareNetnsDir(); err != nil {
		return state{}, err
	}
	if err := sweep(func(o owner) bool { return !o.alive() }); err != nil {
		return state{}, fmt.Errorf("remove labs of dead processes: %w", err)
	}
	start, err := startOf(os.Getpid())
	if err != nil {
		return state{}, err
	}
	// One with a name has an owner too until it is complete.
	st := state{Name: labName(given), Topology: t, Owner: &owner{PID: os.Getpid(), Start: start}}
	if given == "" {
		for n := 1; ; n++ {
			st.Name = labName(fmt.Sprintf("%d-%d", os.Getpid(), n))
			if _, err := os.Lstat(st.dir()); errors.Is(err, os.ErrNotExist) {
				break
			}
		}
	}
	return st, st.create()
}

// create makes the lab's directories and its record.
func (s state) create() (err error) {
	if err := os.Mkdir(s.dir(), 0o755); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("lab %s is already up; take it down first, or choose another name", strings.TrimPrefix(s.Name, "sluice-"))
	} else if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.dir()))
		}
	}()
	if err := s.write(); err != nil {
		return err
	}
	members := []string{trunkName}
	for _, n := range s.Topology.Nodes {
		members = append(members, n.Name)
		for _, p := range n.Pods {
			members = append(members, p.Name)
		}
	}
	for _, name := range append(members, s.Topology.Hosts...) {
		if err := os.Mkdir(filepath.Join(s.dir(), name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// keep takes the owner out of the record: the lab stands until it is closed.
func (s state) keep() error {
	unlock, err := lockState()
	if err != nil {
		return err
	}
	defer unlock()
	s.Owner = nil
	return s.write()
}

// write replaces the record in one step.
func (s state) write() error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir(), "lab.json")
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func readState(name string) (state, error) {
	var s state
	path := filepath.Join(stateDir, name, "lab.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Standing lists the labs that are up, with the process that owns each; 0 for
// those that stay until they are closed.
func Standing() (map[string]int, error) {
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	labs := map[string]int{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		s, err := readState(e.Name())
		if err != nil {
			continue // being made, being removed, or cut short by a crash: sweep's business
		}
		labs[strings.TrimPrefix(s.Name, "sluice-")] = 0
		if s.Owner != nil {
			labs[strings.TrimPrefix(s.Name, "sluice-")] = s.Owner.PID
		}
	}
	return labs, nil
}

// sweep removes the labs whose owner is condemned. The caller holds the lock.
func sweep(condemned func(owner) bool) error {
	entries, err := os.ReadDir(stateDir)
	if err != nil {
		return err
	}
	var faults []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		s, err := readState(e.Name())
		if err == nil && (s.Owner == nil || !condemned(*s.Owner)) {
			continue
		}
		// A record that cannot be read was cut short by a crash: records are
		// written under the lock.
		faults = append(faults, demolish(e.Name()))
	}
	return errors.Join(faults...)
}

// tearDown removes one lab.
func tearDown(name string) error {
	unlock, err := lockState()
	if err != nil {
		return err
	}
	defer unlock()
	return demolish(name)
}

// demolish ends what runs inside, takes the names away and then the record. The
// caller holds the lock.
func demolish(name string) error {
	faults := []error{endInside(name)}
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), name+"-") {
			faults = append(faults, removeNamespace(e.Name()))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err // the record stays: the next lab tries again
	}
	return os.RemoveAll(filepath.Join(stateDir, name))
}

// lockState keeps other processes, and other goroutines of this one, from making
// or removing labs meanwhile.
func lockState() (unlock func(), err error) {
	defer func() {
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: a lab needs root's rights; run as root", err)
		}
	}()
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(stateDir, "lock")
	raw, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := sys.NewFD(raw)
	for {
		err = unix.Flock(f.Raw(), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
