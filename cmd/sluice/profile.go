package main

import (
	"errors"

	"github.com/pkg/profile"
)

// profiling is what --profile and --profile-dir say.
type profiling struct {
	mode func(*profile.Profile) // nil for none
	dir  string
}

// set reads what to profile; "" is nothing.
func (p *profiling) set(kind string) error {
	modes := map[string]func(*profile.Profile){
		"": nil, "cpu": profile.CPUProfile, "mem": profile.MemProfile, "block": profile.BlockProfile,
		"mutex": profile.MutexProfile, "trace": profile.TraceProfile,
	}
	mode, known := modes[kind]
	if !known {
		return errors.New("want cpu, mem, block, mutex, trace, or nothing")
	}
	p.mode = mode
	return nil
}

// start profiles until stop is called; the file is complete then.
func (p *profiling) start() (stop func()) {
	if p.mode == nil {
		return func() {}
	}
	return profile.Start(p.mode, profile.ProfilePath(p.dir), profile.NoShutdownHook, profile.Quiet).Stop
}
