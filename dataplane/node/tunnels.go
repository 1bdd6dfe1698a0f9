package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/local"
	"github.com/sluice-mesh/sluice/dataplane/mesh"
	"github.com/sluice-mesh/sluice/dataplane/route"
	"github.com/sluice-mesh/sluice/dataplane/session"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
)

// Mesh says how a node without a control plane takes part in a mesh.
type Mesh struct {
	CADir         string // where the built-in CA is; "" means no tunnels in either direction
	File          string // of workloads; "" means that none is known
	GenericCipher bool   // leave the vector instructions out
}

// tunnels is what a node has for them; nil when there are none. Its goroutines end
// with run and close.
type tunnels struct {
	session.Tunnels
	watcher *local.Watcher // nil without a file
}

// newTunnels makes what tunnels need, or says what is missing.
func newTunnels(cfg Mesh, log *slog.Logger) (*tunnels, error) {
	if cfg.CADir == "" {
		if cfg.File != "" {
			return nil, errors.New("a mesh file needs the directory of a certificate authority, to prove who the pods are: --ca-dir")
		}
		return nil, nil
	}
	if err := tlsrec.CheckFIPS(); err != nil {
		return nil, err
	}
	ca, err := identity.LoadCA(cfg.CADir)
	if err != nil {
		return nil, err
	}
	n := &tunnels{}
	n.TrustDomain, n.Mesh, n.Cipher = ca.TrustDomain(), new(mesh.Current), gcm.Best()
	if cfg.GenericCipher {
		n.Cipher = gcm.Generic
	}
	if n.Gate, err = tlsrec.NewGate(tlsrec.Limits{PanicEnds: sys.Checked}); err != nil {
		return nil, err
	}
	if cfg.File != "" {
		if n.watcher, err = local.Start(local.Config{Path: cfg.File, Into: n.Mesh, Log: log}); err != nil {
			return nil, fmt.Errorf("mesh file: %w", err)
		}
	}
	n.Identities = identity.NewManager(identity.Config{Issuer: &identity.Directory{Path: cfg.CADir}, Log: log})
	log.Info("tunnels are served", "trust-domain", n.TrustDomain, "cipher", n.Cipher.String(), "workloads", n.Mesh.Load().Len())
	return n, nil
}

// route is route.InMesh with the newest snapshot.
func (n *tunnels) route(path flow.Path, t flow.Tuple, own flow.Addrs) flow.Verdict {
	return route.InMesh(n.Mesh.Load(), path, t, own)
}

// run watches the file until ctx ends.
func (n *tunnels) run(ctx context.Context, wg *sync.WaitGroup) {
	if n != nil && n.watcher != nil {
		wg.Go(func() { n.watcher.Run(ctx) })
	}
}

// close ends handshakes and renewals, after the last pod.
func (n *tunnels) close() {
	if n != nil {
		n.Gate.Close()
		n.Identities.Close()
	}
}
