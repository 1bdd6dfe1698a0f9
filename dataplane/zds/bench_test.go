package zds_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

var added = zds.Request{Kind: zds.Add, UID: "0e2d8f3c-6b1a", Info: &zds.Info{Name: "web-0", Namespace: "shop", ServiceAccount: "front"}}

// BenchmarkFrame writes the frame for one pod and reads it.
func BenchmarkFrame(b *testing.B) {
	var buf []byte
	op := func() {
		var err error
		if buf, err = added.Append(buf[:0]); err != nil {
			b.Fatal(err)
		}
		if _, err = zds.ParseRequest(buf); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
}

// BenchmarkAsk hands a pod with its namespace over and hears that it is served;
// both sides count.
func BenchmarkAsk(b *testing.B) {
	proxy, agent := pair(b)
	answers := make(chan error, 1)
	go func() {
		for {
			_, ns, err := proxy.ReadRequest()
			if err == nil {
				err = ns.Close()
			}
			if err == nil {
				err = proxy.Respond("", soon())
			}
			if err != nil {
				answers <- err
				return
			}
		}
	}()
	ns, err := sys.ThreadNamespace()
	if err != nil {
		b.Fatal(err)
	}
	defer ns.Close()
	op := func() {
		if r, err := agent.Ask(added, ns, soon()); err != nil || r.Error != "" {
			b.Fatalf("answer %+v, %v", r, err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
	agent.Close()
	<-answers
}
