package subject

import (
	"fmt"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// askTime is how long a proxy may take for one pod.
const askTime = 5 * time.Second

// An agent hands pods to a proxy over ZDS, and does nothing else: rules are made
// the same way for all subjects.
type agent struct {
	listener *zds.Listener
	pods     []Pod
	ended    chan struct{}

	mu       sync.Mutex // guards what follows
	conn     *zds.Conn
	finished bool
	failure  error
}

func newAgent(socket string, pods []Pod) (*agent, error) {
	l, err := zds.Listen(socket)
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a := &agent{listener: l, pods: pods, ended: make(chan struct{})}
	go a.serve()
	return a, nil
}

// serve hands all pods to the first proxy that comes, and holds the connection.
func (a *agent) serve() {
	defer close(a.ended)
	conn, err := a.listener.Accept()
	if err == nil {
		a.mu.Lock()
		a.conn = conn
		a.mu.Unlock()
		err = a.handOver(conn)
	}
	a.mu.Lock()
	a.failure, a.finished = err, true
	a.mu.Unlock()
}

func (a *agent) handOver(conn *zds.Conn) error {
	if _, err := conn.ReadHello(time.Now().Add(askTime)); err != nil {
		return fmt.Errorf("agent: hello: %w", err)
	}
	for _, p := range a.pods {
		req := zds.Request{Kind: zds.Add, UID: p.Name, Info: &zds.Info{Name: p.Name, Namespace: "bench", ServiceAccount: "default"}}
		resp, err := conn.Ask(req, p.Handle().FD(), time.Now().Add(askTime))
		if err == nil && resp.Error != "" {
			err = fmt.Errorf("the proxy says: %s", resp.Error)
		}
		if err != nil {
			return fmt.Errorf("agent: add pod %s: %w", p.Name, err)
		}
	}
	resp, err := conn.Ask(zds.Request{Kind: zds.SnapshotSent}, nil, time.Now().Add(askTime))
	if err == nil && resp.Error != "" {
		err = fmt.Errorf("the proxy says: %s", resp.Error)
	}
	if err != nil {
		return fmt.Errorf("agent: end of snapshot: %w", err)
	}
	return nil
}

// done reports whether the pods are handed over, or that failed.
func (a *agent) done() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.finished
}

func (a *agent) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

func (a *agent) close() {
	_ = a.listener.Close()
	a.mu.Lock()
	if a.conn != nil {
		_ = a.conn.Close()
	}
	a.mu.Unlock()
	<-a.ended
}
