package identity

import (
	"context"
	"time"
)

// A Directory is the Issuer that mints by the CA in a directory. It reads the CA
// anew each time: the root's key is in memory while it signs, and roots that are
// added to the directory come with the next renewal.
type Directory struct {
	Path     string
	Lifetime time.Duration    // of certificates; 0: DefaultLifetime
	Now      func() time.Time // the node's clock; nil: time.Now
}

// Issue mints a certificate for id.
func (d *Directory) Issue(_ context.Context, id ID) (*Certificate, error) {
	ca, err := LoadCA(d.Path)
	if err != nil {
		return nil, err
	}
	return ca.Issue(id, d.Lifetime, d.Now)
}
