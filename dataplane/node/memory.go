//go:build !race

package node

import "github.com/sluice-mesh/sluice/dataplane/buf"

// blockMemory is where loops keep blocks: outside the heap.
func blockMemory() buf.Allocator { return nil }
