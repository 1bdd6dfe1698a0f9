package tlsrec

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
)

// A keyLog catches the two application traffic secrets that crypto/tls tells its
// KeyLogWriter; there is no other way to them. It lives as long as its handshake and
// nothing else sees what is written to it.
type keyLog struct {
	client, server [maxSecretLen]byte
	clientLen      int
	serverLen      int
}

// Write takes one line of the key log: label, client random, secret.
func (k *keyLog) Write(line []byte) (int, error) {
	label, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	_, secret, _ := bytes.Cut(rest, []byte(" "))
	var err error
	switch string(label) {
	case "CLIENT_TRAFFIC_SECRET_0":
		k.clientLen, err = decodeSecret(&k.client, secret)
	case "SERVER_TRAFFIC_SECRET_0":
		k.serverLen, err = decodeSecret(&k.server, secret)
	}
	return len(line), err
}

func decodeSecret(to *[maxSecretLen]byte, text []byte) (int, error) {
	if len(text) > hex.EncodedLen(len(to)) {
		return 0, fmt.Errorf("traffic secret of %d digits", len(text))
	}
	return hex.Decode(to[:], text)
}

// state returns the state of role's side behind a handshake: crypto/tls sends
// nothing under the application secrets, and reads nothing under them.
func (k *keyLog) state(role Role, s Suite) (State, error) {
	if !s.known() {
		return State{}, fmt.Errorf("%v was settled on, which is not known here", s)
	}
	if n := s.secretLen(); k.clientLen != n || k.serverLen != n {
		return State{}, errors.New("crypto/tls did not tell the traffic secrets")
	}
	st := State{Role: role, Suite: s}
	st.Read.Secret, st.Write.Secret = k.server, k.client
	if role == Server {
		st.Read.Secret, st.Write.Secret = k.client, k.server
	}
	return st, nil
}

func (k *keyLog) clear() { *k = keyLog{} }

// withKeys returns a copy of cfg whose secrets go to keys only. It settles on
// TLS 1.3, and neither gives nor uses tickets: a server's would be sent under the
// application secrets.
func withKeys(cfg *tls.Config, keys *keyLog) *tls.Config {
	cfg = cfg.Clone()
	cfg.KeyLogWriter = keys
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	cfg.SessionTicketsDisabled = true
	cfg.ClientSessionCache = nil
	if choose := cfg.GetConfigForClient; choose != nil {
		cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			other, err := choose(hello)
			if other == nil || err != nil {
				return nil, err
			}
			return withKeys(other, keys), nil
		}
	}
	return cfg
}
