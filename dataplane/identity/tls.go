package identity

import (
	"crypto/tls"
	"slices"
)

// Protocol is what both ends offer by ALPN.
const Protocol = "h2"

// groups are the key exchanges that we offer, the hybrid one first.
func groups() []tls.CurveID {
	return []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384}
}

// Server returns the settings of the end that accepts: a certificate of the same
// trust domain is demanded of the client. The settings are shared; a handshake works
// on a Clone.
func (c *Certificate) Server() *tls.Config { return c.server }

// Client returns the settings of the end that connects to a peer which has to be one
// of expected. Keep them with expected: they can be used again, by a Clone.
func (c *Certificate) Client(expected []ID) *tls.Config {
	expected = slices.Clone(expected)
	cfg := c.common()
	// What the server hints at as authorities is not asked: it may not know yet
	// that ours is signed by its next root.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.shown, nil }
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := c.VerifyServer(cs.PeerCertificates, expected)
		return err
	}
	return cfg
}

// makeServer prepares both forms of the server's settings. A Go server prefers the
// hybrid group to any other, and would answer a client that offers it but sent no
// share for it, ztunnel for one, with a HelloRetryRequest: one more round trip for
// each tunnel. So it is offered only to a client that lists it first.
func (c *Certificate) makeServer() {
	base := c.common()
	base.Certificates = []tls.Certificate{c.shown}
	base.ClientAuth = tls.RequireAnyClientCert // VerifyClient judges it
	base.SessionTicketsDisabled = true
	base.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := c.VerifyClient(cs.PeerCertificates)
		return err
	}

	c.serverClassic = base.Clone()
	c.serverClassic.CurvePreferences = groups()[1:]
	classic := c.serverClassic

	c.server = base
	c.server.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedCurves) > 0 && hello.SupportedCurves[0] == tls.X25519MLKEM768 {
			return nil, nil
		}
		return classic, nil
	}
}

// common is what both roles share.
func (c *Certificate) common() *tls.Config {
	return &tls.Config{
		MinVersion:       tls.VersionTLS13,
		MaxVersion:       tls.VersionTLS13,
		NextProtos:       []string{Protocol},
		CurvePreferences: groups(),
		Time:             c.now,
		// There is no server name to check: a peer is an identity, which
		// VerifyConnection demands, with the chain, the times and the usage.
		// So no server name is sent either.
		InsecureSkipVerify: true,
	}
}
