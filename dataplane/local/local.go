// Package local reads the mesh from a file, for nodes without a control plane: YAML
// or JSON in the schema of the mesh's own proxy. What this version does not serve
// yet is refused by name, not passed over.
//
// Data enters by Parse, or by Watch from a file and each change of it, and leaves as
// a mesh.Snapshot, whole or not at all.
//
// Owns: a Watcher the goroutine of its Run. Threads: any.
package local

import (
	"encoding/json"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/sluice-mesh/sluice/dataplane/mesh"
)

// MaxBytes is the longest text that is read.
const MaxBytes = 64 << 20

// Parse reads a whole file. The error has all that is wrong with it, a line each.
func Parse(text []byte) (*mesh.Snapshot, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%d bytes; at most %d are read", len(text), MaxBytes)
	}
	js, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var workloads []*mesh.Workload
	f := &faults{}
	eachField(f, "", js, map[string]func(string, json.RawMessage){
		"workloads": func(at string, v json.RawMessage) {
			eachItem(f, at, v, func(at string, v json.RawMessage) {
				if w := parseWorkload(f, at, v); w != nil {
					workloads = append(workloads, w)
				}
			})
		},
		"services": func(at string, v json.RawMessage) { empty(f, at, v) },
		"policies": func(at string, v json.RawMessage) { empty(f, at, v) },
	})
	if err := f.err(); err != nil {
		return nil, err
	}
	return mesh.New(workloads)
}

// faults gathers what is wrong, each with its place: "workloads[1].protocol".
type faults struct{ all []error }

// maxFaults keeps the message of a file of another kind short.
const maxFaults = 20

func (f *faults) add(at, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if at != "" {
		err = fmt.Errorf("%s: %w", at, err)
	}
	f.all = append(f.all, err)
}

func (f *faults) err() error {
	if n := len(f.all); n > maxFaults {
		return errors.Join(append(f.all[:maxFaults:maxFaults], fmt.Errorf("and %d more", n-maxFaults))...)
	}
	return errors.Join(f.all...)
}

// notServed is said of what the schema has and this version has not.
const notServed = "not served by this version of sluice; leave it out"
