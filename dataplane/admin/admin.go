// Package admin is HTTP for people and probes: the admin port (flows, state,
// profiles, quit), the metrics port and the readiness port.
//
// Data enters as requests, and is asked of a Node. Owns: its listeners and their
// goroutines, until Serve returns. Threads: any; nothing here runs on a loop.
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
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// Traffic is what the loops know. Each answer is asked of them, at that moment.
type Traffic interface {
	Counters() ([]*metric.Set, error)     // by loop; nil for one that did not answer, which the error says too
	Flows(limit int) ([]flow.Info, error) // at most limit of each loop
	Open() int                            // how many flows there are
}

// State is what others than loops know.
type State interface {
	Pending() []string // what readiness waits for; empty when ready
	Pods() []Pod
	Samples() []Sample // what they count
}

// A Node is what there is to be asked.
type Node struct {
	Traffic Traffic
	State   State
	Quit    func()         // starts the drain
	Levels  *logs.Levels   // nil when they can't be changed
	Config  map[string]any // the effective settings, for JSON
	Build   Build
}

// A Pod is one that this node serves.
type Pod struct {
	flow.Pod
	State   string // Pending, Up or Draining
	Since   time.Time
	Netns   string // its network namespace
	LastErr string // why it is pending
}

// Config says where to listen, as HOST:PORT; "" leaves a server out. The host
// localhost is IPv4 and, where there is one, IPv6 loopback; no host is every
// address.
type Config struct {
	Admin    string // for people on this machine: keep it on loopback
	Metrics  string
	Ready    string
	IPv4Only bool
}

// headerLimit bounds how long a client may take to say what it wants, idleLimit how
// long its connection may wait for the next question (whoever can reach a port
// must not use up descriptors), grace how long one that is being answered may take
// after the end.
const (
	headerLimit = 2 * time.Second
	idleLimit   = 2 * time.Minute
	headerBytes = 8 << 10
	grace       = time.Second
)

// A Server is the three servers.
type Server struct {
	log      *slog.Logger
	untilEnd []service // admin and metrics: who drains wants to see what does not end
	untilOut []service // readiness, which fails by not being there
}

// A service is one server and its listeners.
type service struct {
	name  string
	lists []net.Listener
	http  *http.Server
}

// Listen opens the ports, all or none.
func Listen(cfg Config, n Node, log *slog.Logger) (_ *Server, err error) {
	s := &Server{log: log}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for _, p := range []struct {
		name, addr string
		handler    http.Handler
		to         *[]service
	}{
		{"admin", cfg.Admin, people(n), &s.untilEnd},
		{"metrics", cfg.Metrics, metrics(n), &s.untilEnd},
		{"readiness", cfg.Ready, ready(n.State), &s.untilOut},
	} {
		if p.addr == "" {
			continue
		}
		lists, err := listen(p.addr, cfg.IPv4Only)
		if err != nil {
			return nil, fmt.Errorf("%s port: %w", p.name, err)
		}
		*p.to = append(*p.to, service{p.name, lists, &http.Server{
			Handler: p.handler, ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headerBytes,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		}})
	}
	return s, nil
}

// Close gives the ports back when Serve was never called.
func (s *Server) Close() {
	for _, v := range append(s.untilEnd, s.untilOut...) {
		for _, l := range v.lists {
			_ = l.Close()
		}
	}
}

// Addr is where a server listens, for a port that was left to the kernel: admin,
// metrics or readiness. The zero value stands for one that is not there.
func (s *Server) Addr(name string) string {
	for _, v := range append(s.untilEnd, s.untilOut...) {
		if v.name == name {
			return v.lists[0].Addr().String()
		}
	}
	return ""
}

// Serve answers until end ends, and about readiness until drain does. Then it
// stops to accept, lets requests finish for a moment, and returns.
func (s *Server) Serve(drain, end context.Context) {
	var wg sync.WaitGroup
	for _, v := range s.untilOut {
		v.serve(drain, &wg, s.log)
	}
	for _, v := range s.untilEnd {
		v.serve(end, &wg, s.log)
	}
	wg.Wait()
}

// serve starts the goroutines of one server.
func (v service) serve(until context.Context, wg *sync.WaitGroup, log *slog.Logger) {
	for _, l := range v.lists {
		wg.Go(func() {
			if err := v.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				log.Error("server ended", "server", v.name, "address", l.Addr().String(), "error", err)
			}
		})
	}
	wg.Go(func() { v.stop(until) })
}

// stop waits for the end of a server and ends it.
func (v service) stop(until context.Context) {
	<-until.Done()
	limit, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if v.http.Shutdown(limit) != nil {
		_ = v.http.Close() // whoever is still being answered has had a second
	}
}
