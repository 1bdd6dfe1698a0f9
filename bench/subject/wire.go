package subject

import "context"

// Wire is nothing at all: no capture, no process.
type Wire struct{}

// Name is wire.
func (Wire) Name() string { return "wire" }

// Note says what it is.
func (Wire) Note() string { return "the bare wire: no capture, nothing in between" }

// Serves every mode: it stands beside the others in each.
func (Wire) Serves(string) bool { return true }

// Check finds nothing missing.
func (Wire) Check() error { return nil }

// Start starts nothing.
func (Wire) Start(context.Context, Place) (*Running, error) { return &Running{Name: "wire"}, nil }
