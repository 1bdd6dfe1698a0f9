// Package zds is the namespace hand-off protocol: how an agent tells a node
// proxy which pods it serves, and hands it their network namespaces. Both
// halves are here; the wire types are Istio's own, so that either half may be
// Istio's.
//
// Data enters as packets on an AF_UNIX SOCK_SEQPACKET connection, one message a
// packet, and leaves as plain values: Hello, Request, Response. A Conn belongs to
// one side: the proxy Dials, says Hello, then answers each Request; the agent
// Accepts, reads the Hello, then Asks one Request at a time. There are no ids, so
// after a time-out nobody knows whose answer the next one is: close.
//
// Owns: each Conn its socket; a descriptor received belongs to the caller, one
// sent stays the caller's. Threads: one goroutine reads from a Conn and one
// writes to it at a time; Close may come from any.
package zds

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	zdsapi "istio.io/istio/pkg/zdsapi"
)

const (
	// DefaultSocket is where Istio's agent listens and its proxy connects.
	DefaultSocket = "/var/run/ztunnel/ztunnel.sock"

	// MaxPacket bounds a message: readers on both sides have a buffer of this
	// size and take a full one for a cut one.
	MaxPacket = 1023

	// modesField carries the capture modes in ZdsHello. Istio's type does not
	// know it, keeps it as an unknown field and goes on.
	modesField = 1000
)

// The capture modes that a proxy can name in its Hello.
const (
	ModeDirect   = "direct"
	ModeRedirect = "redirect"
)

// V1 is the only version of the protocol.
const V1 = int32(zdsapi.Version_V1)

// ErrMalformed is wrapped by the error of a packet that is not a message of this
// protocol, or whose descriptor does not fit its kind.
var ErrMalformed = errors.New("malformed message")

// A Hello is what the proxy says first.
type Hello struct {
	Version int32
	Modes   []string // capture modes that the proxy serves; none from a proxy that is not ours
}

// Serves reports whether the proxy named mode. One that names none is Istio's,
// which serves redirect.
func (h Hello) Serves(mode string) bool {
	if len(h.Modes) == 0 {
		return mode == ModeRedirect
	}
	return slices.Contains(h.Modes, mode)
}

// Append adds h as a message to b.
func (h Hello) Append(b []byte) ([]byte, error) {
	start := len(b)
	m := &zdsapi.ZdsHello{Version: zdsapi.Version(h.Version)}
	var modes []byte
	for _, mode := range h.Modes {
		modes = protowire.AppendTag(modes, modesField, protowire.BytesType)
		modes = protowire.AppendString(modes, mode)
	}
	m.ProtoReflect().SetUnknown(modes)
	return appendMessage(b, start, m)
}

// ParseHello reads a Hello.
func ParseHello(b []byte) (Hello, error) {
	var m zdsapi.ZdsHello
	if err := parseMessage(b, &m); err != nil {
		return Hello{}, err
	}
	h := Hello{Version: int32(m.GetVersion())}
	for rest := []byte(m.ProtoReflect().GetUnknown()); len(rest) > 0; {
		num, typ, n := protowire.ConsumeField(rest)
		if n < 0 {
			return Hello{}, fmt.Errorf("hello: %w", ErrMalformed) // proto.Unmarshal has walked it already
		}
		if num == modesField && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			mode, _ := protowire.ConsumeBytes(rest[tag:])
			if !utf8.Valid(mode) {
				return Hello{}, fmt.Errorf("hello: capture mode %q is not UTF-8: %w", mode, ErrMalformed)
			}
			h.Modes = append(h.Modes, string(mode))
		}
		rest = rest[n:]
	}
	return h, nil
}

// A Kind tells what a Request asks for.
type Kind uint8

// The kinds of request.
const (
	Add          Kind = iota + 1 // serve this pod; its namespace comes along
	Keep                         // the pod exists, but its namespace can't be sent: go on if you have it
	Del                          // stop serving this pod
	SnapshotSent                 // every pod that exists has been named; forget the others
)

func (k Kind) String() string {
	switch k {
	case Add:
		return "add"
	case Keep:
		return "keep"
	case Del:
		return "del"
	case SnapshotSent:
		return "snapshot_sent"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Info names a workload the way the control plane knows it.
type Info struct {
	Name, Namespace, ServiceAccount string
}

// A Request is what the agent asks of the proxy.
type Request struct {
	Kind Kind
	UID  string // of the pod; empty in SnapshotSent
	Info *Info  // in Add only; nil when the agent left it out, which breaks the protocol
}

// Append adds r as a message to b.
func (r Request) Append(b []byte) ([]byte, error) {
	start := len(b)
	var m zdsapi.WorkloadRequest
	switch r.Kind {
	case Add:
		add := &zdsapi.AddWorkload{Uid: r.UID}
		if i := r.Info; i != nil {
			add.WorkloadInfo = &zdsapi.WorkloadInfo{Name: i.Name, Namespace: i.Namespace, ServiceAccount: i.ServiceAccount}
		}
		m.Payload = &zdsapi.WorkloadRequest_Add{Add: add}
	case Keep:
		m.Payload = &zdsapi.WorkloadRequest_Keep{Keep: &zdsapi.KeepWorkload{Uid: r.UID}}
	case Del:
		m.Payload = &zdsapi.WorkloadRequest_Del{Del: &zdsapi.DelWorkload{Uid: r.UID}}
	case SnapshotSent:
		m.Payload = &zdsapi.WorkloadRequest_SnapshotSent{SnapshotSent: &zdsapi.SnapshotSent{}}
	default:
		return b, fmt.Errorf("request of %v can't be written", r.Kind)
	}
	return appendMessage(b, start, &m)
}

// ParseRequest reads a Request.
func ParseRequest(b []byte) (Request, error) {
	var m zdsapi.WorkloadRequest
	if err := parseMessage(b, &m); err != nil {
		return Request{}, err
	}
	switch p := m.GetPayload().(type) {
	case *zdsapi.WorkloadRequest_Add:
		r := Request{Kind: Add, UID: p.Add.GetUid()}
		if i := p.Add.GetWorkloadInfo(); i != nil {
			r.Info = &Info{Name: i.GetName(), Namespace: i.GetNamespace(), ServiceAccount: i.GetServiceAccount()}
		}
		return r, nil
	case *zdsapi.WorkloadRequest_Keep:
		return Request{Kind: Keep, UID: p.Keep.GetUid()}, nil
	case *zdsapi.WorkloadRequest_Del:
		return Request{Kind: Del, UID: p.Del.GetUid()}, nil
	case *zdsapi.WorkloadRequest_SnapshotSent:
		return Request{Kind: SnapshotSent}, nil
	}
	return Request{}, fmt.Errorf("request without a payload that is known here: %w", ErrMalformed)
}

// A Response is the proxy's answer to one Request.
type Response struct {
	Error string // empty: done
}

// maxErrorText leaves room for the tags and lengths around an error's text.
const maxErrorText = MaxPacket - 16

// Append adds r as a message to b. A text that would not fit is cut.
func (r Response) Append(b []byte) ([]byte, error) {
	start := len(b)
	text := strings.ToValidUTF8(r.Error, "?")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText-len("…")], "") + "…"
	}
	return appendMessage(b, start, &zdsapi.WorkloadResponse{
		Payload: &zdsapi.WorkloadResponse_Ack{Ack: &zdsapi.Ack{Error: text}},
	})
}

// ParseResponse reads a Response.
func ParseResponse(b []byte) (Response, error) {
	var m zdsapi.WorkloadResponse
	if err := parseMessage(b, &m); err != nil {
		return Response{}, err
	}
	ack, ok := m.GetPayload().(*zdsapi.WorkloadResponse_Ack)
	if !ok {
		return Response{}, fmt.Errorf("response without an ack: %w", ErrMalformed)
	}
	return Response{Error: ack.Ack.GetError()}, nil
}

func appendMessage(b []byte, start int, m proto.Message) ([]byte, error) {
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, m)
	if err != nil {
		return b, fmt.Errorf("write %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	if n := len(out) - start; n > MaxPacket {
		return b, fmt.Errorf("%s of %d bytes is too long for a packet of at most %d; use shorter names", m.ProtoReflect().Descriptor().Name(), n, MaxPacket)
	}
	return out, nil
}

func parseMessage(b []byte, m proto.Message) error {
	if len(b) > MaxPacket {
		return fmt.Errorf("packet of %d bytes, at most %d are allowed: %w", len(b), MaxPacket, ErrMalformed)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("%s: %w: %w", m.ProtoReflect().Descriptor().Name(), ErrMalformed, err)
	}
	return nil
}
