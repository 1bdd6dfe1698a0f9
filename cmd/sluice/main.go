// Command sluice is the proxy of a node.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	cfg := node.Config{Log: log}
	cfg.Pods.Modes = []string{"direct", "redirect"}
	if len(os.Args) > 1 {
		cfg.Pods.Socket = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, sys.SIGTERM)
	defer stop()
	n, err := node.New(cfg)
	if err == nil {
		err = n.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(1)
	}
}
