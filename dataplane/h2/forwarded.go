package h2

import (
	"bytes"
	"net/netip"
)

// AppendForwarded appends the value of the forwarded field: who the client is and,
// unless it is "", the name of the service that it meant.
func AppendForwarded(b []byte, client netip.AddrPort, host string) []byte {
	b = append(client.AppendTo(append(b, `for="`...)), '"')
	if host == "" {
		return b
	}
	return append(append(b, ";host="...), host...)
}

// ForwardedHost finds the service's name in the value of a forwarded field: what
// follows the first host=, without its quotes. Nil when there is none. The rest of the
// field is not believed, and not read.
func ForwardedHost(value []byte) []byte {
	for len(value) > 0 {
		part := value
		if i := bytes.IndexByte(value, ';'); i >= 0 {
			part, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		host, ok := bytes.CutPrefix(bytes.TrimSpace(part), []byte("host="))
		if !ok {
			continue
		}
		host = bytes.Trim(host, `"`)
		if len(host) == 0 || !printable(host) {
			return nil
		}
		return host
	}
	return nil
}

// printable reports whether a value has only visible ASCII, blanks and tabs.
func printable[S ~string | ~[]byte](s S) bool {
	for i := range len(s) {
		if c := s[i]; c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}
