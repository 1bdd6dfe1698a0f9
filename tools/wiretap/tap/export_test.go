package tap

import "github.com/sluice-mesh/sluice/dataplane/netns"

// OpenIdle is Open with a reader that starts when the test calls start.
func OpenIdle(in *netns.Handle, cfg Config) (t *Tap, start func(), err error) {
	t, err = open(in, cfg)
	if err != nil {
		return nil, nil, err
	}
	return t, func() { go t.read() }, nil
}
