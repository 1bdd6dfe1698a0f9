package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A StateDir is the folder where values are kept that Remove must put back. Each
// namespace has one file, netns/COOKIE.json, which is written atomically before
// the first change. The kernel never gives a namespace's cookie to another one
// until the machine is started again, so a file can't be taken for that of a
// later pod. The folder should not outlive a reboot (/run); a file that did is
// not believed.
type StateDir string

// kept is what a file holds.
type kept struct {
	Boot      string            `json:"boot"` // the boot_id under which it was written
	Namespace string            `json:"namespace"`
	Sysctls   map[string]string `json:"sysctls"` // their values before us
}

// remember adds old values to those kept about ns; what is kept already is older,
// and stays.
func (d StateDir) remember(ns *netns.Handle, old map[string]string) error {
	before, err := d.recall(ns)
	if err != nil {
		return err
	}
	k := kept{Namespace: ns.ID().String(), Sysctls: map[string]string{}}
	for _, values := range []map[string]string{old, before} {
		maps.Copy(k.Sysctls, values)
	}
	if k.Boot, err = bootID(); err != nil {
		return err
	}
	path, err := d.file(ns)
	if err != nil {
		return err
	}
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("state file %s: %w", path, err)
	}
	return writeAtomically(path, append(text, '\n'))
}

// recall returns the values kept about ns; none is no error.
func (d StateDir) recall(ns *netns.Handle) (map[string]string, error) {
	path, err := d.file(ns)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state file: %w", err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("state file %s: %w; delete it to go on, the sysctls of %v then stay as they are", path, err, ns.ID())
	}
	boot, err := bootID()
	if err != nil || k.Boot != boot {
		return nil, err
	}
	return k.Sysctls, nil
}

// Forget drops what is kept about ns, without touching ns itself: for a pod that
// is gone and takes its rules along. Nothing kept is no error.
func (d StateDir) Forget(ns *netns.Handle) error {
	path, err := d.file(ns)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state file: %w", err)
	}
	return nil
}

// file names the file of ns. Kernels without cookies get device and inode.
func (d StateDir) file(ns *netns.Handle) (string, error) {
	if d == "" {
		return "", errors.New("no folder for the state of namespaces is named")
	}
	var cookie uint64
	err := ns.Do(func() (err error) {
		cookie, err = sys.NamespaceCookie()
		return err
	})
	name := fmt.Sprint(cookie)
	if errors.Is(err, sys.ErrUnsupported) {
		name, err = fmt.Sprintf("%d-%d", ns.ID().Dev, ns.ID().Ino), nil
	}
	if err != nil {
		return "", fmt.Errorf("number of %v: %w", ns.ID(), err)
	}
	return filepath.Join(string(d), "netns", name+".json"), nil
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// writeAtomically leaves the whole text at path or what was there before, also
// when the machine stops in the middle.
func writeAtomically(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			err = fmt.Errorf("state file: %w", err)
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
