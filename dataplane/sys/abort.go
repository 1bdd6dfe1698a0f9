package sys

import "os"

// Abort ends the process at once with text on standard error: for states in
// which going on would harm others.
func Abort(text string) {
	_, _ = os.Stderr.WriteString(text + "\n") // nothing is left to tell a failure to
	os.Exit(70)                               // EX_SOFTWARE, sysexits.h
}
