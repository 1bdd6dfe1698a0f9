package lab

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// closeOnSignal makes SIGINT and SIGTERM remove all labs of this process before
// they end it, until stop is called. Several may be in force; the first one that
// gets the signal does the work for all.
func closeOnSignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, unix.SIGTERM)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			if err := RemoveOwn(); err != nil {
				os.Stderr.WriteString("lab: " + err.Error() + "\n")
			}
			signal.Reset(sig)
			unix.Kill(os.Getpid(), sig.(syscall.Signal))
		case <-quit:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		<-done
	}
}

// RemoveOwn removes every lab that belongs to this process: for a program that is
// about to be ended by a signal.
func RemoveOwn() error {
	unlock, err := lockState()
	if err != nil {
		return err
	}
	defer unlock()
	return sweep(func(o owner) bool { return o.PID == os.Getpid() })
}
