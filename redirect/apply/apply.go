// Package apply puts capture into a pod's network namespace, and takes it out.
//
// Data enters as a namespace and an Intent. Prepare does what must be there
// before the proxy listens, Capture what must come after, Apply both, Remove
// takes everything back from whatever state it finds. Nothing half done is left:
// the table is one transaction, and a step that fails takes back what it did.
//
// Owns, in a namespace: table inet sluice, route table 100, the policy rules of
// preference 10 and 11 that point to it, and the values of three sysctls, whose
// old ones are in the StateDir. Never touches the host's own namespace.
package apply

import (
	"errors"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/nft"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

// Apply is Prepare and Capture. When Capture fails it takes back what Prepare
// did. A proxy must listen in ns by then, or nothing new connects.
func Apply(ns *netns.Handle, in redirect.Intent, dir StateDir) (Result, error) {
	undo, err := prepare(ns, in, dir)
	if err != nil {
		return Result{}, err
	}
	res, err := Capture(ns, in)
	if err != nil {
		return res, errors.Join(err, undo.run())
	}
	return res, nil
}

// Prepare does what must be there before the proxy listens: sysctls, routes and
// policy rules. Safe to repeat; when it fails it has taken back what it did. A
// sysctl that spares work only, and can't be set, is left alone.
//
// A kernel that lacks something that Capture needs is found out before anything
// is touched.
func Prepare(ns *netns.Handle, in redirect.Intent, dir StateDir) error {
	_, err := prepare(ns, in, dir)
	return err
}

func prepare(ns *netns.Handle, in redirect.Intent, dir StateDir) (undo steps, err error) {
	plan, err := redirect.NewPlan(in)
	if err != nil {
		return nil, err
	}
	if err := admit(ns); err != nil {
		return nil, err
	}
	if err := possible(ns, plan); err != nil {
		return nil, err
	}
	conn, err := rt.Open(ns)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.run())
			undo = nil
		}
		conn.Close()
	}()

	if err := setSysctls(ns, plan.Sysctls, dir, &undo); err != nil {
		return undo, err
	}
	for _, r := range plan.Routes {
		if there, err := rt.HasFamily(ns, r.Family); err != nil {
			return undo, err
		} else if !there {
			continue // what is marked then is dropped by the table's last chain
		}
		added, err := conn.AddRoute(r)
		if err != nil {
			return undo, err
		}
		if added {
			undo.add(ns, func(c *rt.Conn) error { _, err := c.DelRoute(r); return err })
		}
	}
	for _, r := range plan.Rules {
		if there, err := rt.HasFamily(ns, r.Family); err != nil {
			return undo, err
		} else if !there {
			continue
		}
		added, err := conn.AddRule(r)
		if err != nil {
			return undo, err
		}
		if added {
			undo.add(ns, func(c *rt.Conn) error { _, err := c.DelRule(r); return err })
		}
	}
	return undo, nil
}

// possible reports what the kernel lacks for p. Where it can't be told once for
// all, p itself is rehearsed in ns.
func possible(ns *netns.Handle, p redirect.Plan) error {
	for _, name := range p.Require {
		if err := nft.Probe(ns, name); err != nil {
			return err
		}
	}
	err := nft.FeatureDirect.Check()
	if err != nil && !errors.Is(err, sys.ErrUnsupported) {
		err = nft.Rehearse(ns, p.Table)
	}
	return err
}

// setSysctls writes the old values down before it changes the first one.
func setSysctls(ns *netns.Handle, want []redirect.Sysctl, dir StateDir, undo *steps) error {
	old := map[string]string{}
	for _, s := range want {
		value, err := rt.Sysctl(ns, s.Name)
		if errors.Is(err, rt.ErrNoSysctl) && !s.Required {
			continue
		}
		if err != nil {
			return err
		}
		if value != s.Value {
			old[s.Name] = value
		}
	}
	if len(old) == 0 {
		return nil
	}
	before, err := dir.recall(ns)
	if err != nil {
		return err
	}
	if err := dir.remember(ns, old); err != nil {
		return err
	}
	changed := map[string]string{}
	*undo = append(*undo, func() error {
		var faults []error
		for name, value := range changed {
			faults = append(faults, rt.SetSysctl(ns, name, value))
		}
		if before == nil {
			faults = append(faults, dir.Forget(ns))
		}
		return errors.Join(faults...)
	})
	for _, s := range want {
		value, changes := old[s.Name]
		if !changes {
			continue
		}
		switch err := rt.SetSysctl(ns, s.Name, s.Value); {
		case err == nil:
			changed[s.Name] = value
		case s.Required:
			return err
		}
	}
	return nil
}

// putBack gives the sysctls the values that they had before us. One that holds
// neither our value nor that one was set by somebody else, and stays.
func putBack(ns *netns.Handle, ours []redirect.Sysctl, dir StateDir) (n int, err error) {
	old, err := dir.recall(ns)
	if err != nil {
		return 0, err
	}
	for _, s := range ours {
		was, known := old[s.Name]
		if !known {
			continue
		}
		now, err := rt.Sysctl(ns, s.Name)
		if err != nil {
			return n, err
		}
		if now != s.Value || now == was {
			continue
		}
		if err := rt.SetSysctl(ns, s.Name, was); err != nil {
			return n, err
		}
		n++
	}
	return n, dir.Forget(ns)
}

// steps take back what was done, the last first.
type steps []func() error

func (s *steps) add(ns *netns.Handle, back func(*rt.Conn) error) {
	*s = append(*s, func() error {
		conn, err := rt.Open(ns)
		if err != nil {
			return err
		}
		defer conn.Close()
		return back(conn)
	})
}

// run takes back as much as it can.
func (s steps) run() error {
	var faults []error
	for i := len(s) - 1; i >= 0; i-- {
		faults = append(faults, s[i]())
	}
	return errors.Join(faults...)
}
