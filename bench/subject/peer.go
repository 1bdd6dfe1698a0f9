package subject

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// builtin are the descriptions that come with the bench.
//
//go:embed peers
var builtin embed.FS

// A Description says how to run a proxy that is not ours: a JSON file. Its args,
// and its files, are templates (text/template) over Values.
type Description struct {
	Note    string            `json:"note"`    // one line for people
	Modes   []string          `json:"modes"`   // of capture that it can stand behind
	Where   string            `json:"where"`   // pod: one in each pod; node: one on each node, given pods over ZDS
	Args    []string          `json:"args"`    // of the program
	Env     []string          `json:"env"`     // NAME=VALUE
	Files   map[string]string `json:"files"`   // name in {{.Dir}} to the name of a template beside the description
	Group   bool              `json:"group"`   // can't mark its sockets: capture tells it by the group nogroup
	OnePort bool              `json:"onePort"` // can't find the original port: it is told the first one
	Needs   []string          `json:"needs"`   // files without which it cannot run
	Package string            `json:"package"` // Debian's, for the message when something is missing
}

// Values are what templates can name.
type Values struct {
	Dir      string // for files and sockets; gone with the lab
	Loops    int
	OutPort  int
	InPort   int
	Address  string // of the pod; where is node: empty
	Upstream string // ADDRESS:PORT for what comes to OutPort
	App      string // ADDRESS:PORT for what comes to InPort
	ZDS      string // socket; where is node
}

// A Peer is a proxy that is not ours.
type Peer struct {
	name string
	path string
	desc Description
	dir  fs.FS // of the description
}

// Builtin returns the peer that the bench describes itself: haproxy, haproxy-own,
// nginx or nginx-own, with the program that the description names.
func Builtin(name string) (*Peer, error) {
	dir, err := fs.Sub(builtin, "peers")
	if err != nil {
		return nil, err
	}
	base, _, _ := strings.Cut(name, "-")
	return newPeer(name, base, dir, name+".json")
}

// ParsePeer reads NAME=PATH or NAME=PATH,DESCRIPTION. Without a description the
// one of the bench for a program of that name is taken.
func ParsePeer(text string) (*Peer, error) {
	name, rest, ok := strings.Cut(text, "=")
	program, desc, own := strings.Cut(rest, ",")
	if !ok || name == "" || program == "" {
		return nil, fmt.Errorf("peer %q; want NAME=PATH or NAME=PATH,DESCRIPTION", text)
	}
	if own {
		return newPeer(name, program, os.DirFS(filepath.Dir(desc)), filepath.Base(desc))
	}
	dir, err := fs.Sub(builtin, "peers")
	if err != nil {
		return nil, err
	}
	p, err := newPeer(name, program, dir, path.Base(program)+".json")
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("peer %s: no description for %s comes with the bench; add one: NAME=PATH,DESCRIPTION", name, path.Base(program))
	}
	return p, err
}

func newPeer(name, program string, dir fs.FS, file string) (*Peer, error) {
	b, err := fs.ReadFile(dir, file)
	if err != nil {
		return nil, fmt.Errorf("peer %s: description: %w", name, err)
	}
	p := &Peer{name: name, path: program, dir: dir}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p.desc); err != nil {
		return nil, fmt.Errorf("peer %s: description %s: %w", name, file, err)
	}
	if w := p.desc.Where; w != "pod" && w != "node" {
		return nil, fmt.Errorf("peer %s: description %s: where is %q; want pod or node", name, file, w)
	}
	for _, m := range p.desc.Modes {
		if m != Direct && m != Redirect || m == Direct && p.desc.Group {
			return nil, fmt.Errorf("peer %s: description %s: mode %q; want %s, or %s for a proxy that marks its sockets", name, file, m, Redirect, Direct)
		}
	}
	return p, nil
}

// Name is what the user calls it.
func (p *Peer) Name() string { return p.name }

// Note says what it is.
func (p *Peer) Note() string { return p.desc.Note }

// Serves what the description says.
func (p *Peer) Serves(mode string) bool { return slices.Contains(p.desc.Modes, mode) }

// Check looks for the program and for what it needs.
func (p *Peer) Check() error {
	_, err := exec.LookPath(p.path)
	for _, need := range p.desc.Needs {
		_, e := os.Stat(need)
		err = errors.Join(err, e)
	}
	if err != nil && p.desc.Package != "" {
		return fmt.Errorf("%w; install %s", err, p.desc.Package)
	}
	return err
}

// Start starts it where the description says.
func (p *Peer) Start(ctx context.Context, at Place) (*Running, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	run := &Running{Name: p.name, OnePort: p.desc.OnePort}
	var err error
	if p.desc.Where == "node" {
		err = p.onNodes(ctx, at, run)
	} else {
		err = p.inPods(ctx, at, run)
	}
	if err == nil {
		err = at.capture(ctx, p.desc.Group)
	}
	if err != nil {
		run.Stop()
		return nil, err
	}
	return run, nil
}

func (p *Peer) inPods(ctx context.Context, at Place, run *Running) error {
	for _, pod := range at.Pods {
		v := Values{
			Dir: pod.Dir, Loops: at.Loops, OutPort: OutPort, InPort: InPort,
			Address: pod.Addr4.String(), Upstream: pod.Upstream, App: pod.At4(AppPort).String(),
		}
		proc, err := p.start(pod.Space, v)
		if err != nil {
			return err
		}
		run.processes = append(run.processes, proc)
		if err := until(ctx, proc, "wait until it listens", func() bool { return listening(pod.Space, OutPort, InPort) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *Peer) onNodes(ctx context.Context, at Place, run *Running) error {
	return eachNode(at.Pods, func(node *lab.Node, pods []Pod) error {
		v := Values{Dir: node.Dir, Loops: at.Loops, OutPort: OutPort, InPort: InPort, ZDS: filepath.Join(node.Dir, "zds.sock")}
		agent, err := newAgent(v.ZDS, pods)
		if err != nil {
			return err
		}
		run.stops = append(run.stops, agent.close)
		proc, err := p.start(node.Space, v)
		if err != nil {
			return err
		}
		run.processes = append(run.processes, proc)
		if err := until(ctx, proc, "hand over its pods", agent.done); err != nil {
			return err
		}
		return agent.err()
	})
}

// start writes the files and starts the program.
func (p *Peer) start(s *lab.Space, v Values) (*lab.Process, error) {
	for name, source := range p.desc.Files {
		b, err := fs.ReadFile(p.dir, source)
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", p.name, err)
		}
		text, err := expand(source, string(b), v)
		if err == nil {
			err = os.WriteFile(filepath.Join(v.Dir, name), []byte(text), 0o644)
		}
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", p.name, err)
		}
	}
	prog := lab.Program{Name: p.name, Path: p.path, Dir: v.Dir}
	for _, list := range []struct {
		from []string
		to   *[]string
	}{{p.desc.Args, &prog.Args}, {p.desc.Env, &prog.Env}} {
		for _, a := range list.from {
			text, err := expand(a, a, v)
			if err != nil {
				return nil, fmt.Errorf("peer %s: %w", p.name, err)
			}
			*list.to = append(*list.to, text)
		}
	}
	return s.Start(prog)
}

func expand(name, text string, v Values) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}
