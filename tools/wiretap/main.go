// Command wiretap captures a link in a network namespace and fails unless all TCP
// that passed there was TLS 1.3 without a server name, and nothing secret was
// readable. It also fails when it saw nothing, or missed a packet.
//
//	wiretap --netns lab-n1 --interface eth0 --until 10s --secret-text spiffe://
//	wiretap --netns lab-n1 --interface eth0 --secret-file payload --certificate chain.pem --write out/link.pcapng
//	wiretap --read out/link.pcapng --json
//
// Data enters from the link, until a signal or the time; it leaves as a report on
// standard output. Owns: one tap.
package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/tools/wiretap/tap"
)

// namespaces is where iproute2 keeps the named ones.
const namespaces = "/run/netns"

// options are the flags.
type options struct {
	netns, link, read, write         string
	until                            time.Duration
	maxBytes                         int
	texts, files, certificates, free []string
	json                             bool
}

func main() {
	if err := command().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "wiretap:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:           "wiretap",
		Short:         "Capture a link, and fail unless what passes is encrypted",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.netns, "netns", "", "namespace, a name below "+namespaces+" or a path; none means this one")
	fs.StringVar(&o.link, "interface", "eth0", "interface of the namespace")
	fs.DurationVar(&o.until, "until", 0, "how long; 0 means until a signal")
	fs.IntVar(&o.maxBytes, "max-bytes", 256<<20, "of packets that are kept; more is a fault")
	fs.StringVar(&o.read, "read", "", "judge this pcapng file instead of a link")
	fs.StringVar(&o.write, "write", "", "keep the packets as pcapng")
	fs.StringArrayVar(&o.texts, "secret-text", nil, "text that must not be readable; may be repeated")
	fs.StringArrayVar(&o.files, "secret-file", nil, "file of which nothing must be readable; may be repeated")
	fs.StringArrayVar(&o.certificates, "certificate", nil, "PEM file of certificates that must not be readable; may be repeated")
	fs.StringArrayVar(&o.free, "clear", nil, "address or prefix of a machine that may talk in the clear; may be repeated")
	fs.BoolVar(&o.json, "json", false, "report as JSON")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	rules, err := o.rules()
	if err != nil {
		return err
	}
	c, err := o.capture(cmd)
	if err != nil {
		return err
	}
	if o.write != "" {
		if err := keep(c, o.write); err != nil {
			return err
		}
	}
	report, err := c.Judge(rules)
	if err != nil {
		return err
	}
	print := report.Text
	if o.json {
		print = report.JSON
	}
	return errors.Join(print(cmd.OutOrStdout()), report.Err())
}

// rules reads what must not be seen; all faults at once.
func (o *options) rules() (tap.Rules, error) {
	var r tap.Rules
	var faults []error
	for _, text := range o.texts {
		r.Secrets = append(r.Secrets, tap.Secret{Name: fmt.Sprintf("%q", text), Bytes: []byte(text)})
	}
	for _, path := range o.files {
		b, err := os.ReadFile(path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		r.Secrets = append(r.Secrets, tap.Secret{Name: path, Bytes: b})
	}
	for _, path := range o.certificates {
		rest, err := os.ReadFile(path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		before := len(r.Secrets)
		for n := 1; ; n++ {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type == "CERTIFICATE" {
				r.Secrets = append(r.Secrets, tap.Certificate(fmt.Sprintf("%s certificate %d", path, n), block.Bytes)...)
			}
		}
		if len(r.Secrets) == before {
			faults = append(faults, fmt.Errorf("%s holds no certificate in PEM", path))
		}
	}
	for _, text := range o.free {
		p, err := netip.ParsePrefix(text)
		if a, aerr := netip.ParseAddr(text); aerr == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("--clear %q; want an address or a prefix", text))
		}
		r.Clear = append(r.Clear, p)
	}
	return r, errors.Join(faults...)
}

// capture reads a file, or taps the link until it is time.
func (o *options) capture(cmd *cobra.Command) (*tap.Capture, error) {
	if o.read != "" {
		f, err := os.Open(o.read)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		c, err := tap.Read(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.read, err)
		}
		return c, nil
	}
	in, err := o.namespace()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, sys.SIGTERM)
	defer stop()
	t, err := tap.Open(in, tap.Config{Interface: o.link, MaxBytes: o.maxBytes})
	if err != nil {
		return nil, err
	}
	if o.until > 0 {
		limited, cancel := context.WithTimeout(ctx, o.until)
		defer cancel()
		ctx = limited
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "wiretap: ready")
	<-ctx.Done()
	return t.Stop()
}

func (o *options) namespace() (*netns.Handle, error) {
	switch {
	case o.netns == "":
		return netns.Current()
	case strings.Contains(o.netns, "/"):
		return netns.Open(o.netns)
	}
	return netns.Open(filepath.Join(namespaces, o.netns))
}

// keep writes the packets to a file.
func keep(c *tap.Capture, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(c.Write(f), f.Close())
}
