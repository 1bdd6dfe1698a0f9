package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// exitStatus ends sluicectl with the status of the program that it ran.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func labExecCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:                   "exec MEMBER -- PROGRAM [ARGUMENT]...",
		Short:                 "Run a program inside a node, pod or host",
		Args:                  cobra.MinimumNArgs(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			s := l.Find(args[0])
			if s == nil {
				var names []string
				for _, s := range l.Spaces() {
					names = append(names, s.Name)
				}
				return fmt.Errorf("lab %s has no member %q; it has %v", *name, args[0], names)
			}
			c := s.Command(context.Background(), args[1], args[2:]...)
			c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return runAttached(c)
		},
	}
}

// runAttached runs c in the foreground. The terminal sends an interrupt to c as
// well; this process stays to report how c ended. A request to end is passed on.
func runAttached(c *exec.Cmd) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, lab.SIGTERM)
	defer signal.Stop(signals)
	if err := c.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for {
		select {
		case sig := <-signals:
			if sig == lab.SIGTERM {
				if err := c.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
					return err
				}
			}
		case err := <-done:
			if failed, ok := errors.AsType[*exec.ExitError](err); ok {
				if code := failed.ExitCode(); code >= 0 {
					return exitStatus(code)
				}
			}
			return err
		}
	}
}
