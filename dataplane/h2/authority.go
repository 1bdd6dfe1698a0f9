package h2

import (
	"bytes"
	"net/netip"
	"strconv"
)

// maxHost is the length of the longest DNS name.
const maxHost = 253

// An Authority is where a CONNECT leads: an address, or a name with a port.
type Authority struct {
	Addr netip.AddrPort // not valid when Host is set
	Host string         // lower case; "" when Addr is set
	Port uint16         // of Addr or Host
}

// AddrAuthority is the authority of an address.
func AddrAuthority(a netip.AddrPort) Authority { return Authority{Addr: a, Port: a.Port()} }

// Append appends ip:port, [v6]:port or host:port.
func (a Authority) Append(b []byte) []byte {
	if a.Host == "" {
		return a.Addr.AppendTo(b)
	}
	return strconv.AppendUint(append(append(b, a.Host...), ':'), uint64(a.Port), 10)
}

// String is what Append appends.
func (a Authority) String() string { return string(a.Append(nil)) }

// ParseAuthority reads ip:port, [v6]:port or host:port. The port is there and not 0;
// an address has no zone, and one of IPv4 in IPv6 stays what it is. Only a name
// allocates.
func ParseAuthority(b []byte) (a Authority, ok bool) {
	colon := bytes.LastIndexByte(b, ':')
	if colon < 1 {
		return a, false
	}
	host := b[:colon]
	if a.Port, ok = parsePort(b[colon+1:]); !ok {
		return Authority{}, false
	}
	var ip netip.Addr
	switch {
	case host[0] == '[' && host[len(host)-1] == ']':
		if ip, ok = parseIPv6(host[1 : len(host)-1]); !ok {
			return Authority{}, false
		}
	default:
		if ip, ok = parseIPv4(host); !ok {
			a.Host, ok = parseHost(host)
			return a, ok
		}
	}
	a.Addr = netip.AddrPortFrom(ip, a.Port)
	return a, true
}

func parsePort(b []byte) (uint16, bool) {
	v := 0
	for _, c := range b {
		if !digit(c) {
			return 0, false
		}
		if v = v*10 + int(c-'0'); v > 65535 {
			return 0, false
		}
	}
	return uint16(v), v > 0 && len(b) <= 5
}

// parseIPv4 reads four decimal numbers without leading zeros.
func parseIPv4(b []byte) (netip.Addr, bool) {
	var ip [4]byte
	for i := range ip {
		if i > 0 {
			if len(b) == 0 || b[0] != '.' {
				return netip.Addr{}, false
			}
			b = b[1:]
		}
		v, n := 0, 0
		for n < len(b) && digit(b[n]) {
			if n > 0 && v == 0 {
				return netip.Addr{}, false
			}
			if v = v*10 + int(b[n]-'0'); v > 255 {
				return netip.Addr{}, false
			}
			n++
		}
		if n == 0 {
			return netip.Addr{}, false
		}
		ip[i], b = byte(v), b[n:]
	}
	return netip.AddrFrom4(ip), len(b) == 0
}

// parseIPv6 reads the groups of RFC 4291 section 2.2, without a zone. Not by netip:
// it takes strings, and keeps them in its error.
func parseIPv6(b []byte) (netip.Addr, bool) {
	var ip [16]byte
	at, gap := 0, -1 // next byte of ip; where "::" stood
	if len(b) >= 2 && b[0] == ':' && b[1] == ':' {
		gap, b = 0, b[2:]
	}
	for len(b) > 0 && at < 16 {
		v, n := 0, 0
		for n < len(b) && n < 5 {
			d := hexDigit(b[n])
			if d < 0 {
				break
			}
			v = v<<4 | d
			n++
		}
		if n == 0 || n > 4 {
			return netip.Addr{}, false
		}
		if n < len(b) && b[n] == '.' { // the last 32 bits as IPv4
			v4, ok := parseIPv4(b)
			if !ok || at > 12 {
				return netip.Addr{}, false
			}
			tail := v4.As4()
			at, b = at+copy(ip[at:], tail[:]), nil
			break
		}
		ip[at], ip[at+1], b = byte(v>>8), byte(v), b[n:]
		at += 2
		switch {
		case len(b) == 0:
		case b[0] != ':' || len(b) == 1:
			return netip.Addr{}, false
		case b[1] != ':':
			b = b[1:]
		case gap >= 0:
			return netip.Addr{}, false
		default:
			gap, b = at, b[2:]
		}
	}
	if len(b) > 0 || gap < 0 && at != 16 || gap >= 0 && at == 16 {
		return netip.Addr{}, false
	}
	if gap >= 0 {
		moved := at - gap
		copy(ip[16-moved:], ip[gap:at])
		clear(ip[gap : 16-moved])
	}
	return netip.AddrFrom16(ip), true
}

func hexDigit(c byte) int {
	switch {
	case digit(c):
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// parseHost takes letters, digits, hyphens, underscores and dots. What looks like an
// address and is none is no name.
func parseHost(b []byte) (string, bool) {
	if len(b) > maxHost {
		return "", false
	}
	var host [maxHost]byte
	last := 0 // where the last label begins
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', digit(c), c == '-', c == '_':
		case c == '.' && i > last:
			last = i + 1
		default:
			return "", false
		}
		host[i] = c
	}
	if end := host[last:len(b)]; len(end) > 0 && allDigits(end) {
		return "", false
	}
	return string(host[:len(b)]), len(b) > 0 && host[0] != '.'
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if !digit(c) {
			return false
		}
	}
	return true
}
