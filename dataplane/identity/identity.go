// Package identity proves who a workload is: names, certificates in rotation, trust
// bundles, the TLS settings of both ends of a tunnel and the checks of a peer, and
// the built-in certificate authority.
//
// Data enters as certificates of an Issuer, by a Manager that renews them, and
// leaves by Source.Get, one atomic load, as a Certificate: immutable, with its
// tls.Configs. A peer that may not be talked to ends the handshake with a *Fault,
// which names both sides of what did not match.
//
// Owns: a Manager one goroutine for each identity that somebody acquired, until the
// last Release or Close. Threads: any, unless a type says otherwise.
package identity

import (
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/mesh"
)

// An ID is the identity of a workload.
type ID = flow.Identity

// ParseID reads spiffe://trust-domain/ns/namespace/sa/service-account.
func ParseID(s string) (ID, error) { return flow.ParseIdentity(s) }

// Of returns the identity of a workload of the mesh.
func Of(w *mesh.Workload) ID {
	return ID{TrustDomain: w.TrustDomain, Namespace: w.Namespace, ServiceAccount: w.ServiceAccount}
}
