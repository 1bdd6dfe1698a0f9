// Package admin is HTTP for people and probes: the admin port (flows, state,
// profiles, quit), the metrics port and the readiness port.
//
// Data enters as requests, and is asked of a Source. Owns: its three listeners
// and their goroutines, until Serve returns. Threads: any; nothing here runs on
// a loop.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// A Source knows what is asked for.
type Source interface {
	Pending() []string                    // what readiness waits for; empty when ready
	Loops() ([]*metric.Set, error)        // by loop; nil for one that did not answer
	Flows(limit int) ([]flow.Info, error) // at most limit of each loop
	Samples() []Sample                    // what others than loops count
	Dump() any                            // the effective settings and all state, for JSON
	Quit()                                // starts the drain
}

// Config says where to listen; "" leaves a server out.
type Config struct {
	Admin   string // for people on this machine: keep it on loopback
	Metrics string
	Ready   string
}

// headerLimit bounds how long a client may take to say what it wants.
const headerLimit = 2 * time.Second

// A Server is the three servers.
type Server struct {
	cfg   Config
	log   *slog.Logger
	lists []net.Listener
	serve []*http.Server
}

// Listen opens the ports, all or none.
func Listen(cfg Config, src Source, log *slog.Logger) (*Server, error) {
	s := &Server{cfg: cfg, log: log}
	for _, p := range []struct {
		name, addr string
		handler    http.Handler
	}{
		{"admin", cfg.Admin, people(src)},
		{"metrics", cfg.Metrics, metrics(src)},
		{"readiness", cfg.Ready, ready(src)},
	} {
		if p.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("%s port: %w", p.name, err)
		}
		s.lists = append(s.lists, l)
		s.serve = append(s.serve, &http.Server{
			Handler: p.handler, ReadHeaderTimeout: headerLimit, MaxHeaderBytes: 8 << 10,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		})
	}
	return s, nil
}

func (s *Server) close() {
	for _, l := range s.lists {
		_ = l.Close()
	}
}

// Serve answers until ctx ends; then it stops to accept, lets requests finish
// for a moment, and returns.
func (s *Server) Serve(ctx context.Context) {
	var wg sync.WaitGroup
	for i, srv := range s.serve {
		wg.Go(func() {
			if err := srv.Serve(s.lists[i]); !errors.Is(err, http.ErrServerClosed) {
				s.log.Error("server ended", "address", s.lists[i].Addr().String(), "error", err)
			}
		})
	}
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, srv := range s.serve {
		wg.Go(func() {
			if srv.Shutdown(grace) != nil {
				_ = srv.Close() // whoever is still being answered has had a second
			}
		})
	}
	wg.Wait()
}
