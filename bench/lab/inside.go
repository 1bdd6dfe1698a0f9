package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Running is a process inside a lab.
type Running struct {
	PID     int
	Command string // its arguments
}

// Running lists the processes in the namespace, whoever started them.
func (s *Space) Running() ([]Running, error) {
	return runningIn(func(ino uint64) bool { return ino == s.handle.ID().Ino })
}

// endInside kills every process whose namespace has a name of the lab and waits
// until they are gone.
func endInside(lab string) error {
	inodes := map[uint64]bool{}
	paths, err := filepath.Glob(filepath.Join(netnsDir, lab+"-*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err == nil {
			inodes[st.Ino] = true
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		left, err := runningIn(func(ino uint64) bool { return inodes[ino] })
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("lab %s: process %d (%s) does not end", lab, left[0].PID, left[0].Command)
		}
		for _, p := range left {
			unix.Kill(p.PID, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// runningIn lists the processes, this one and those that have ended but are not
// reaped aside, whose network namespace is wanted.
func runningIn(want func(ino uint64) bool) ([]Running, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Running
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		ns, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns/net")) // fails for ended ones
		if err != nil {
			continue
		}
		ino, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(ns, "net:["), "]"), 10, 64)
		if err != nil || !want(ino) {
			continue
		}
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		found = append(found, Running{PID: pid, Command: string(bytes.ReplaceAll(bytes.TrimRight(args, "\x00"), []byte{0}, []byte{' '}))})
	}
	return found, nil
}

// alive reports whether the owner still runs.
func (o owner) alive() bool {
	start, err := startOf(o.PID)
	return err == nil && start == o.Start
}

// startOf is when a process started: field 22 of /proc/PID/stat (proc(5)). One
// that has ended and waits to be reaped has none.
func startOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The command, in parentheses, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const state, start = 0, 19 // after the command: fields 3 and 22
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat is short", pid)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", errors.New("has ended")
	}
	return fields[start], nil
}
