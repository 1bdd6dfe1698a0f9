package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/admin"
)

// version is set by the linker for a release (-X main.version=…); a build from a
// checkout says what it is from.
var version string

func versionCommand(env lookup) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what was built",
		Args:  cobra.ArbitraryArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), buildLine(build(env))) },
	}
}

// build is what the linker and the toolchain left in the binary.
func build(env lookup) admin.Build {
	b := admin.Build{Version: version, Revision: "unknown", Status: "Clean", Istio: "unknown", Go: "unknown"}
	if v, ok := env("ISTIO_META_ISTIO_VERSION"); ok {
		b.Istio = v
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version, b.Go = cmp.Or(b.Version, info.Main.Version, "unknown"), info.GoVersion
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			b.Status = "Modified"
		}
	}
	return b
}

// buildLine is what the mesh's tools parse.
func buildLine(b admin.Build) string {
	return fmt.Sprintf("version.BuildInfo{Version:%q, GitRevision:%q, RustVersion:%q, BuildProfile:%q, BuildStatus:%q, IstioVersion:%q, CryptoProvider:%q, GoVersion:%q}",
		b.Version, b.Revision, "n/a", "release", b.Status, b.Istio, "go", b.Go)
}
