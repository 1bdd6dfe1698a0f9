package main

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/identity"
)

// caCommand is the built-in certificate authority, for nodes without a control
// plane.
func caCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "The built-in certificate authority, for nodes without a control plane",
		Long: `The built-in certificate authority, for nodes without a control plane: one root in a
directory that the nodes share. Whoever can read its key can be any workload.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(caInit(), caIssue(), caShow())
	return cmd
}

func caInit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init DIRECTORY",
		Short: "Make a root; never replaces one",
		Args:  cobra.ExactArgs(1),
	}
	domain := cmd.Flags().String("trust-domain", "cluster.local", "whose workloads it will name")
	lifetime := cmd.Flags().Duration("lifetime", identity.DefaultRootLifetime, "how long the root is good")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ca, err := identity.NewCA(*domain, *lifetime, time.Now())
		if err != nil {
			return err
		}
		if err := ca.Save(args[0]); err != nil {
			return err
		}
		return printCA(cmd, ca)
	}
	return cmd
}

func caIssue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "issue DIRECTORY IDENTITY OUT",
		Short: "Write a certificate for IDENTITY, and its key, to the directory OUT",
		Long: `Write a certificate for IDENTITY (spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT)
to the directory OUT, as ` + identity.ChainFile + `, ` + identity.KeyFile + ` and ` + identity.RootFile + `: for other programs. The
proxy mints the certificates of its own pods itself.`,
		Args: cobra.ExactArgs(3),
	}
	lifetime := cmd.Flags().Duration("lifetime", identity.DefaultLifetime, "how long the certificate is good")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ca, err := identity.LoadCA(args[0])
		if err != nil {
			return err
		}
		id, err := identity.ParseID(args[1])
		if err != nil {
			return err
		}
		cert, err := ca.Issue(id, *lifetime, nil)
		if err != nil {
			return err
		}
		if err := cert.Save(args[2]); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "identity      %v\nserial        %s\ngood from     %s\ngood until    %s\n",
			id, cert.Serial(), stamp(cert.NotBefore()), stamp(cert.NotAfter()))
		return nil
	}
	return cmd
}

func caShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show DIRECTORY",
		Short: "Tell about the root",
		Args:  cobra.ExactArgs(1),
	}
	pem := cmd.Flags().Bool("pem", false, "print what is trusted as PEM")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ca, err := identity.LoadCA(args[0])
		if err != nil {
			return err
		}
		if *pem {
			_, err := cmd.OutOrStdout().Write(ca.Roots().AppendPEM(nil))
			return err
		}
		return printCA(cmd, ca)
	}
	return cmd
}

// printCA tells about a root; never about its key.
func printCA(cmd *cobra.Command, ca *identity.CA) error {
	root := ca.Root()
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "trust domain  %s\nroot          %s\nSHA-256       %x\ngood from     %s\ngood until    %s\n",
		ca.TrustDomain(), root.Subject, sha256.Sum256(root.Raw), stamp(root.NotBefore), stamp(root.NotAfter))
	return err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
