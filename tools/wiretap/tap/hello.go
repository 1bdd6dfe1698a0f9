package tap

import (
	"crypto/tls"
	"errors"

	"golang.org/x/crypto/cryptobyte"
)

// Handshake messages and extensions (RFC 8446, section 4; RFC 5246, section 7.4).
const (
	typeClientHello = 1
	typeServerHello = 2

	extServerName = 0
	extGroups     = 10
	extALPN       = 16
	extVersions   = 43
	extKeyShare   = 51
)

func messageName(typ byte) string {
	switch typ {
	case typeClientHello:
		return "ClientHello"
	case typeServerHello:
		return "ServerHello"
	case 4:
		return "NewSessionTicket"
	case 11:
		return "Certificate"
	case 12:
		return "ServerKeyExchange"
	case 13:
		return "CertificateRequest"
	case 14:
		return "ServerHelloDone"
	case 16:
		return "ClientKeyExchange"
	}
	return "unknown"
}

// clientHello is what a client tells everybody.
type clientHello struct {
	versions []uint16
	suites   []uint16
	groups   []uint16
	shares   []uint16 // groups for which it sent a key share
	alpn     []string
	named    bool // there is a server_name extension
	name     string
}

// serverHello is what a server answers.
type serverHello struct {
	version uint16
	suite   uint16
	group   uint16
	retry   bool // HelloRetryRequest
}

var errHello = errors.New("a hello that can't be read")

func parseClientHello(b []byte) (*clientHello, error) {
	h := &clientHello{}
	s := cryptobyte.String(b)
	var version uint16
	var session, suites, compression cryptobyte.String
	if !s.ReadUint16(&version) || !s.Skip(32) || !s.ReadUint8LengthPrefixed(&session) ||
		!s.ReadUint16LengthPrefixed(&suites) || !s.ReadUint8LengthPrefixed(&compression) {
		return nil, errHello
	}
	h.versions = []uint16{version}
	if !readList(suites, &h.suites) {
		return nil, errHello
	}
	if s.Empty() {
		return h, nil
	}
	ok := eachExtension(&s, func(typ uint16, data cryptobyte.String) bool {
		var list, one cryptobyte.String
		switch typ {
		case extServerName:
			h.named = true
			var nameType uint8
			if data.ReadUint16LengthPrefixed(&list) && list.ReadUint8(&nameType) && list.ReadUint16LengthPrefixed(&one) {
				h.name = string(one)
			}
			return true // a name that can't be read is a name
		case extGroups:
			return data.ReadUint16LengthPrefixed(&list) && readList(list, &h.groups)
		case extVersions:
			h.versions = nil
			return data.ReadUint8LengthPrefixed(&list) && readList(list, &h.versions)
		case extKeyShare:
			if !data.ReadUint16LengthPrefixed(&list) {
				return false
			}
			for !list.Empty() {
				var group uint16
				if !list.ReadUint16(&group) || !list.ReadUint16LengthPrefixed(&one) {
					return false
				}
				h.shares = append(h.shares, group)
			}
		case extALPN:
			if !data.ReadUint16LengthPrefixed(&list) {
				return false
			}
			for !list.Empty() {
				if !list.ReadUint8LengthPrefixed(&one) {
					return false
				}
				h.alpn = append(h.alpn, string(one))
			}
		}
		return true
	})
	if !ok {
		return nil, errHello
	}
	return h, nil
}

// retryRandom is the random value of a HelloRetryRequest (RFC 8446, section 4.1.3):
// the SHA-256 of that name.
const retryRandom = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

func parseServerHello(b []byte) (*serverHello, error) {
	h := &serverHello{}
	s := cryptobyte.String(b)
	var random []byte
	var session cryptobyte.String
	var compression uint8
	if !s.ReadUint16(&h.version) || !s.ReadBytes(&random, 32) || !s.ReadUint8LengthPrefixed(&session) ||
		!s.ReadUint16(&h.suite) || !s.ReadUint8(&compression) {
		return nil, errHello
	}
	h.retry = string(random) == retryRandom
	if s.Empty() {
		return h, nil
	}
	if !eachExtension(&s, func(typ uint16, data cryptobyte.String) bool {
		switch typ {
		case extVersions:
			return data.ReadUint16(&h.version)
		case extKeyShare:
			return data.ReadUint16(&h.group)
		}
		return true
	}) {
		return nil, errHello
	}
	return h, nil
}

// eachExtension calls fn for each, while it returns true.
func eachExtension(s *cryptobyte.String, fn func(typ uint16, data cryptobyte.String) bool) bool {
	var all cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&all) || !s.Empty() {
		return false
	}
	for !all.Empty() {
		var typ uint16
		var data cryptobyte.String
		if !all.ReadUint16(&typ) || !all.ReadUint16LengthPrefixed(&data) || !fn(typ, data) {
			return false
		}
	}
	return true
}

func readList(s cryptobyte.String, to *[]uint16) bool {
	for !s.Empty() {
		var v uint16
		if !s.ReadUint16(&v) {
			return false
		}
		*to = append(*to, v)
	}
	return true
}

// reserved are the values that clients put among others so that servers get used
// to unknown ones (RFC 8701).
func reserved(v uint16) bool { return v&0x0f0f == 0x0a0a && v>>8 == v&0xff }

func names(list []uint16, name func(uint16) string) []string {
	var all []string
	for _, v := range list {
		if !reserved(v) {
			all = append(all, name(v))
		}
	}
	return all
}

func versionName(v uint16) string { return tls.VersionName(v) }
func suiteName(v uint16) string   { return tls.CipherSuiteName(v) }
func groupName(v uint16) string   { return tls.CurveID(v).String() }
