package h2

// The kinds of field sections.
const (
	request = iota
	response
	skipped
)

// The pseudo-header fields.
const (
	method = iota
	authority
	scheme
	path
	status
	pseudos
)

// A section is a field section while it is read, and the first fault found in it.
type section struct {
	kind     int
	fault    string // what is malformed; "" when nothing is
	regular  bool   // a field that is no pseudo-header field has come
	tooLarge bool
	pseudo   [pseudos][]byte // nil when it did not come

	forwarded, traceParent, network, baggage []byte
}

func (s *section) malformed(what string) {
	if s.fault == "" {
		s.fault = what
	}
}

// add takes in one field.
func (s *section) add(d *Decoder, name, value []byte) {
	if !validValue(value) {
		s.malformed("a field's value has a NUL, a line break, or white space at an end (RFC 9113 8.2.1)")
		return
	}
	if len(name) > 0 && name[0] == ':' {
		s.addPseudo(name, value)
		return
	}
	s.regular = true
	if !validName(name) {
		s.malformed("a field's name is empty, upper case or has a character that is not allowed (RFC 9113 8.2.1)")
		return
	}
	switch string(name) {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		s.malformed("a connection-specific field (RFC 9113 8.2.2)")
	case "te":
		if string(value) != "trailers" {
			s.malformed("TE other than trailers (RFC 9113 8.2.2)")
		}
	case "forwarded":
		keepFirst(&s.forwarded, value)
	case "traceparent":
		keepFirst(&s.traceParent, value)
	case "x-forwarded-network":
		keepFirst(&s.network, value)
	case "baggage":
		if s.baggage == nil {
			keepFirst(&s.baggage, value)
			break
		}
		at := len(d.joined)
		d.joined = append(append(append(d.joined, s.baggage...), ','), value...)
		s.baggage = d.joined[at:len(d.joined):len(d.joined)]
	}
}

// keepFirst keeps the first value of a name. No value is nil, empty ones neither:
// each is a part of something.
func keepFirst(to *[]byte, value []byte) {
	if *to == nil {
		*to = value
	}
}

func (s *section) addPseudo(name, value []byte) {
	if s.regular {
		s.malformed("a pseudo-header field behind a regular one (RFC 9113 8.3)")
		return
	}
	which := pseudos
	switch string(name) {
	case ":method":
		which = method
	case ":authority":
		which = authority
	case ":scheme":
		which = scheme
	case ":path":
		which = path
	case ":status":
		which = status
	}
	switch {
	case which == pseudos || (which == status) != (s.kind == response):
		s.malformed("a pseudo-header field that is not defined here (RFC 9113 8.3)")
	case s.pseudo[which] != nil:
		s.malformed("a pseudo-header field twice (RFC 9113 8.3)")
	default:
		keepFirst(&s.pseudo[which], value)
	}
}

// complete checks what can be said only of all fields.
func (s *section) complete() {
	if s.kind == response {
		v := s.pseudo[status]
		if len(v) != 3 || v[0] < '1' || v[0] > '9' || !digit(v[1]) || !digit(v[2]) {
			s.malformed("a response without a status of three digits (RFC 9113 8.3.2)")
		} else if string(v) == "101" {
			s.malformed("status 101, which HTTP/2 does not have (RFC 9113 8.6)")
		}
		return
	}
	switch {
	case len(s.pseudo[method]) == 0:
		s.malformed("a request without a method (RFC 9113 8.3.1)")
	case string(s.pseudo[method]) != "CONNECT":
		if len(s.pseudo[scheme]) == 0 || len(s.pseudo[path]) == 0 {
			s.malformed("a request without a scheme or a path (RFC 9113 8.3.1)")
		}
	case s.pseudo[scheme] != nil || s.pseudo[path] != nil:
		s.malformed("CONNECT with a scheme or a path (RFC 9113 8.5)")
	case len(s.pseudo[authority]) == 0:
		s.malformed("CONNECT without an authority (RFC 9113 8.5)")
	}
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// validName accepts what RFC 9113 8.2.1 does not forbid.
func validName(name []byte) bool {
	for _, c := range name {
		if c <= ' ' || c >= 0x7f || c == ':' || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return len(name) > 0
}

// validValue accepts what RFC 9113 8.2.1 does not forbid.
func validValue(value []byte) bool {
	if n := len(value); n > 0 && (blank(value[0]) || blank(value[n-1])) {
		return false
	}
	for _, c := range value {
		if c == 0 || c == '\n' || c == '\r' {
			return false
		}
	}
	return true
}

func blank(c byte) bool { return c == ' ' || c == '\t' }
