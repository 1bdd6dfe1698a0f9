package tap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Report is what a tap says about a link.
type Report struct {
	Link        string         `json:"link"`
	Packets     int            `json:"packets"`
	Bytes       int64          `json:"bytes"`
	Dropped     int            `json:"dropped"` // by the kernel, for want of room
	Left        int            `json:"left"`    // beyond what the capture may hold
	Cut         int            `json:"cut"`     // not kept whole
	Kinds       map[string]int `json:"kinds"`   // packets by protocol
	Connections []Connection   `json:"connections"`
	Secrets     []SecretReport `json:"secrets"`
	Windows     []Window       `json:"windows"` // between marks; one more than there are marks
	Faults      []string       `json:"faults"`  // why it does not pass
}

// A Connection is one TCP connection.
type Connection struct {
	Client    string   `json:"client"`
	Server    string   `json:"server"`
	Allowed   bool     `json:"allowed"` // it may be clear
	Packets   int      `json:"packets"`
	Payload   int64    `json:"payload"` // bytes, both ways
	Up        Way      `json:"up"`
	Down      Way      `json:"down"`
	Encrypted bool     `json:"encrypted"` // TLS 1.3, and nothing of it clear
	Version   string   `json:"version,omitempty"`
	Suite     string   `json:"suite,omitempty"`
	Group     string   `json:"group,omitempty"`
	Retry     bool     `json:"retry,omitempty"` // the server asked for another hello
	Hello     *Hello   `json:"hello,omitempty"`
	Faults    []string `json:"faults,omitempty"`
}

// A Way is one direction of a connection, in bytes of payload.
type Way struct {
	Sealed  int64 `json:"sealed"` // encrypted records
	Hello   int64 `json:"hello"`  // what has to be clear in TLS 1.3
	Clear   int64 `json:"clear"`  // everything else
	Records int   `json:"records"`
}

// A Hello is what the client shows to everybody.
type Hello struct {
	Versions   []string `json:"versions"`
	Suites     []string `json:"suites"`
	Groups     []string `json:"groups"`
	Shares     []string `json:"shares"`
	ALPN       []string `json:"alpn"`
	ServerName *string  `json:"serverName"` // null when there is none
}

// A SecretReport is what was found of a secret.
type SecretReport struct {
	Name   string  `json:"name"`
	Bytes  int     `json:"bytes"`
	Finds  int     `json:"finds"`
	Places []Place `json:"places,omitempty"` // the first ones
}

// A Place is where a secret is readable.
type Place struct {
	Packet     int    `json:"packet"` // from 0
	Connection string `json:"connection,omitempty"`
	Bytes      int    `json:"bytes"`
	Excerpt    string `json:"excerpt"`
}

// A Window is what passed between two marks on connections that must not be clear.
type Window struct {
	Sealed int64 `json:"sealed"`
	Hello  int64 `json:"hello"`
	Clear  int64 `json:"clear"`
	Finds  int   `json:"finds"`
}

func (w *Window) add(k kind, n int) {
	switch k {
	case sealed:
		w.Sealed += int64(n)
	case hello:
		w.Hello += int64(n)
	default:
		w.Clear += int64(n)
	}
}

func (c *connection) report() Connection {
	r := Connection{
		Client: c.client.String(), Server: c.server.String(), Allowed: c.allowed,
		Packets: c.packets, Payload: c.payload(), Up: c.dir[0].way(), Down: c.dir[1].way(),
		Encrypted: c.encrypted(), Faults: c.faults(),
	}
	if h := c.dir[0].records.client; h != nil {
		r.Hello = &Hello{
			Versions: names(h.versions, versionName), Suites: names(h.suites, suiteName),
			Groups: names(h.groups, groupName), Shares: names(h.shares, groupName), ALPN: h.alpn,
		}
		if h.named {
			r.Hello.ServerName = &h.name
		}
	}
	if h := c.dir[1].records.choice; h != nil {
		r.Version, r.Suite, r.Retry = versionName(h.version), suiteName(h.suite), c.dir[1].records.retried
		if h.group != 0 {
			r.Group = groupName(h.group)
		}
	}
	return r
}

func (d *direction) way() Way {
	return Way{Sealed: d.bytes[sealed], Hello: d.bytes[hello], Clear: d.bytes[clear], Records: d.records.records}
}

// Err is nil when the capture passes, and else says why not.
func (r *Report) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	const shown = 10
	text := strings.Join(r.Faults[:min(shown, len(r.Faults))], "; ")
	if n := len(r.Faults) - shown; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return errors.New("on the wire of " + r.Link + ": " + text)
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes the report for people.
func (r *Report) Text(w io.Writer) error {
	fmt.Fprintf(w, "link %s: %d packets, %d bytes, %d dropped\n", r.Link, r.Packets, r.Bytes, r.Dropped+r.Left)
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		fmt.Fprintf(w, "  %d %s\n", r.Kinds[kind], kind)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CLIENT\tSERVER\tPACKETS\tUP SEALED/HELLO/CLEAR\tDOWN SEALED/HELLO/CLEAR\tTLS\tGROUP\tALPN\tSERVER NAME\tENCRYPTED")
	for _, c := range r.Connections {
		version, alpn, name := "-", "-", "-"
		if c.Version != "" {
			version = c.Version + " " + c.Suite
		}
		if c.Hello != nil {
			name = "none"
			if len(c.Hello.ALPN) > 0 {
				alpn = strings.Join(c.Hello.ALPN, ",")
			}
			if c.Hello.ServerName != nil {
				name = fmt.Sprintf("%q", *c.Hello.ServerName)
			}
		}
		group := c.Group
		if group == "" {
			group = "-"
		}
		encrypted := "no"
		switch {
		case c.Encrypted:
			encrypted = "yes"
		case c.Allowed:
			encrypted = "no, and need not be"
		case c.Payload == 0:
			encrypted = "it carried nothing"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Client, c.Server, c.Packets, c.Up, c.Down, version, group, alpn, name, encrypted)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Secrets {
		fmt.Fprintf(w, "secret %s, %d bytes: readable %d times\n", s.Name, s.Bytes, s.Finds)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(w, "fault: %s\n", f)
	}
	verdict := "encrypted"
	if len(r.Faults) > 0 {
		verdict = "NOT ENCRYPTED, or not known to be"
	}
	_, err := fmt.Fprintf(w, "verdict: %s\n", verdict)
	return err
}

func (w Way) String() string { return fmt.Sprintf("%d/%d/%d", w.Sealed, w.Hello, w.Clear) }
