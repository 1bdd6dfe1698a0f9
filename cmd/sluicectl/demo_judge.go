package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// carriage is how the proxy carried a flow, by its own access log.
type carriage struct {
	path    []string // directions, sorted
	engines string   // of the connection that carried most, up/down
}

// accessLine is what the demo reads of a line of the access log.
type accessLine struct {
	Scope       string `json:"scope"`
	Client      string `json:"src.addr"`
	Dst         string `json:"dst.addr"`
	Direction   string `json:"direction"`
	Reason      string `json:"reason"`
	Error       string `json:"error"`
	Up          uint64 `json:"up_bytes"`
	Down        uint64 `json:"down_bytes"`
	UpSpliced   uint64 `json:"up_spliced"`
	DownSpliced uint64 `json:"down_spliced"`
}

// judge finds the connections from a client's address to target in log, and how
// they were carried. Any that did not end by FIN on both sides is an error; so is
// bulk that was not spliced.
func judge(log string, target netip.AddrPort, client netip.Addr, bulk bool) (carriage, error) {
	var (
		c    carriage
		most accessLine
	)
	for line := range strings.Lines(log) {
		var a accessLine
		if json.Unmarshal([]byte(line), &a) != nil || a.Scope != "access" || a.Dst != target.String() {
			continue
		}
		from, err := netip.ParseAddrPort(a.Client)
		if err != nil || from.Addr() != client {
			continue
		}
		if a.Reason != "eof" && !bulk { // iperf3 resets its control connection when it is in a hurry
			return c, fmt.Errorf("it ended with %s %s", a.Reason, a.Error)
		}
		if !slices.Contains(c.path, a.Direction) {
			c.path = append(c.path, a.Direction)
		}
		if a.Up+a.Down >= most.Up+most.Down {
			most = a
		}
	}
	if c.path == nil {
		return c, errors.New("the proxy has not logged it")
	}
	slices.Sort(c.path)
	c.engines = engine(most.UpSpliced, most.Up) + "/" + engine(most.DownSpliced, most.Down)
	if bulk && most.UpSpliced < most.Up/2 {
		return c, fmt.Errorf("only %d of %d bytes were spliced", most.UpSpliced, most.Up)
	}
	return c, nil
}

// engine names what carried most of a direction.
func engine(spliced, all uint64) string {
	switch {
	case all == 0:
		return "-"
	case spliced > all/2:
		return "splice"
	}
	return "copy"
}
