package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/redirect"
)

// ProtocolVersion is that of the enrolment socket's requests and responses.
const ProtocolVersion = 1

// Bounds of what travels on the enrolment socket, in bytes.
const (
	maxRequest  = 8 << 10  // one packet
	maxResponse = 64 << 10 // one packet; a list is one packet for each pod; texts may swell when quoted
	maxPath     = 1 << 10
	maxUID      = 512 // the default, NAMESPACE/NAME, has up to 507
	maxName     = 253 // as Kubernetes has it
)

// What can be asked of the agent.
const (
	OpEnroll   = "enroll"
	OpUnenroll = "unenroll"
	OpList     = "list"
)

// ErrRequest is wrapped by errors about a request that can't be right.
var ErrRequest = errors.New("request refused")

// A Request is one packet to the enrolment socket. A descriptor of the namespace
// may come with an enroll.
type Request struct {
	Version int    `json:"version"`
	Op      string `json:"op"`

	UID            string `json:"uid,omitempty"` // NAMESPACE/NAME when empty
	Name           string `json:"name,omitempty"`
	Namespace      string `json:"namespace,omitempty"`
	ServiceAccount string `json:"service_account,omitempty"`
	Netns          string `json:"netns,omitempty"` // path of the network namespace; may be left out when its descriptor comes along
	Mode           string `json:"mode,omitempty"`  // capture mode; empty: the best that the proxy serves
	Force          bool   `json:"force,omitempty"` // unenroll: reset the flows that are open
	// TimeoutMS is how long the client waits, in milliseconds; 0 means 30 s.
	TimeoutMS int `json:"timeout_ms,omitempty"`
}

// Longest and usual patience of a client.
const (
	maxTimeout     = 10 * time.Minute
	DefaultTimeout = 30 * time.Second
)

// ParseRequest reads a Request, fills in the uid and refuses what can't be right.
func ParseRequest(b []byte) (Request, error) {
	if len(b) > maxRequest {
		return Request{}, fmt.Errorf("%w: %d bytes; at most %d are read", ErrRequest, len(b), maxRequest)
	}
	var r Request
	if err := decodeStrictly(b, &r); err != nil {
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if r.Version != ProtocolVersion {
		return Request{}, fmt.Errorf("%w: version %d; this agent speaks %d", ErrRequest, r.Version, ProtocolVersion)
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if most := int(maxTimeout / time.Millisecond); r.TimeoutMS < 0 || r.TimeoutMS > most {
		fault("timeout_ms is %d; want 0 to %d", r.TimeoutMS, most)
	}
	switch r.Op {
	case OpEnroll:
		checkEnroll(&r, fault)
	case OpUnenroll:
		if err := checkName("uid", r.UID, maxUID); err != nil {
			fault("%w", err)
		}
	case OpList:
	default:
		fault("op is %q; want %s, %s or %s", clip(r.Op), OpEnroll, OpUnenroll, OpList)
	}
	if len(faults) > 0 {
		return Request{}, fmt.Errorf("%w: %w", ErrRequest, errors.Join(faults...))
	}
	return r, nil
}

func checkEnroll(r *Request, fault func(string, ...any)) {
	good := true
	for _, n := range []struct{ field, value string }{
		{"name", r.Name}, {"namespace", r.Namespace}, {"service_account", r.ServiceAccount},
	} {
		if err := checkName(n.field, n.value, maxName); err != nil {
			fault("%w", err)
			good = false
		}
	}
	if r.UID == "" && good {
		r.UID = r.Namespace + "/" + r.Name
	}
	if err := checkName("uid", r.UID, maxUID); err != nil && good {
		fault("%w", err)
		good = false
	}
	if good { // all of it has to fit into one packet to the proxy
		add := zds.Request{Kind: zds.Add, UID: r.UID, Info: &zds.Info{Name: r.Name, Namespace: r.Namespace, ServiceAccount: r.ServiceAccount}}
		if _, err := add.Append(nil); err != nil {
			fault("%w", err)
		}
	}
	if p := r.Netns; p != "" && (len(p) > maxPath || !filepath.IsAbs(p) || filepath.Clean(p) != p || !plain(p)) {
		fault("netns is %q; want a clean absolute path of at most %d bytes", clip(p), maxPath)
	}
	if r.Mode != "" {
		if _, err := redirect.ParseMode(r.Mode); err != nil {
			fault("%w", err)
		}
	}
	if r.Force {
		fault("force goes with %s only", OpUnenroll)
	}
}

func checkName(field, value string, most int) error {
	switch {
	case value == "":
		return fmt.Errorf("%s is empty", field)
	case len(value) > most:
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", field, len(value), most)
	case !plain(value):
		return fmt.Errorf("%s is %q; want characters that can be printed, and no spaces", field, clip(value))
	}
	return nil
}

// plain is true for text that can go into a log line, a table and a file name's
// comment without a surprise.
func plain(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r) })
}

// clip bounds what an error repeats of a stranger's text.
func clip(s string) string {
	if len(s) <= 80 {
		return s
	}
	return s[:80] + "…"
}

// limit is how long the client waits.
func (r Request) limit() time.Duration {
	if r.TimeoutMS == 0 {
		return DefaultTimeout
	}
	return time.Duration(r.TimeoutMS) * time.Millisecond
}

// A Status is what the agent knows of one pod.
type Status struct {
	UID            string `json:"uid"`
	Name           string `json:"name"`
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"service_account"`
	Netns          string `json:"netns"`    // path
	NetnsID        string `json:"netns_id"` // device and inode
	Mode           string `json:"mode"`
	Phase          Phase  `json:"phase"`
	Acked          bool   `json:"acked"` // the newest proxy has acknowledged the pod
	LastError      string `json:"last_error,omitempty"`
}

// A Response is one packet from the enrolment socket. An answer is one or more
// of them; in all but the last one More is true.
type Response struct {
	Version int     `json:"version"`
	Error   string  `json:"error,omitempty"`
	Pod     *Status `json:"pod,omitempty"`
	Note    string  `json:"note,omitempty"` // what a person should know besides
	Stats   *Stats  `json:"stats,omitempty"`
	More    bool    `json:"more,omitempty"`
}

// ParseResponse reads a Response.
func ParseResponse(b []byte) (Response, error) {
	if len(b) > maxResponse {
		return Response{}, fmt.Errorf("response of %d bytes; at most %d are read", len(b), maxResponse)
	}
	var r Response
	if err := decodeStrictly(b, &r); err != nil {
		return Response{}, fmt.Errorf("response: %w", err)
	}
	if r.Version != ProtocolVersion {
		return Response{}, fmt.Errorf("response of version %d; this program speaks %d", r.Version, ProtocolVersion)
	}
	return r, nil
}

// encode writes a message; texts are clipped so that it fits into a packet.
func (r Response) encode() []byte {
	r.Version = ProtocolVersion
	r.Error, r.Note = clipTo(r.Error, 1500), clipTo(r.Note, 1500)
	if r.Pod != nil {
		pod := *r.Pod
		pod.LastError = clipTo(pod.LastError, 1000)
		r.Pod = &pod
	}
	b, err := json.Marshal(r)
	if err != nil { // plain strings and numbers
		panic(fmt.Sprintf("agent: response can't be written: %v", err))
	}
	return b
}

func clipTo(s string, most int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// decodeStrictly reads exactly one JSON object with no unknown field in it.
func decodeStrictly(b []byte, into any) error {
	if !utf8.Valid(b) {
		return errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}
