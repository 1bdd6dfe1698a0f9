package tlsrec

import "fmt"

// An Alert is a description of RFC 8446 6.
type Alert uint8

// The alerts that this package sends or knows by name.
const (
	CloseNotify       Alert = 0
	UnexpectedMessage Alert = 10
	BadRecordMAC      Alert = 20
	RecordOverflow    Alert = 22
	HandshakeFailure  Alert = 40
	BadCertificate    Alert = 42
	CertExpired       Alert = 45
	CertUnknown       Alert = 46
	IllegalParameter  Alert = 47
	UnknownCA         Alert = 48
	AccessDenied      Alert = 49
	DecodeError       Alert = 50
	DecryptError      Alert = 51
	ProtocolVersion   Alert = 70
	InternalError     Alert = 80
	UserCanceled      Alert = 90
	CertRequired      Alert = 116
	NoProtocol        Alert = 120
)

// String returns the alert's name in RFC 8446.
func (a Alert) String() string {
	switch a {
	case CloseNotify:
		return "close_notify"
	case UnexpectedMessage:
		return "unexpected_message"
	case BadRecordMAC:
		return "bad_record_mac"
	case RecordOverflow:
		return "record_overflow"
	case HandshakeFailure:
		return "handshake_failure"
	case BadCertificate:
		return "bad_certificate"
	case CertExpired:
		return "certificate_expired"
	case CertUnknown:
		return "certificate_unknown"
	case IllegalParameter:
		return "illegal_parameter"
	case UnknownCA:
		return "unknown_ca"
	case AccessDenied:
		return "access_denied"
	case DecodeError:
		return "decode_error"
	case DecryptError:
		return "decrypt_error"
	case ProtocolVersion:
		return "protocol_version"
	case InternalError:
		return "internal_error"
	case UserCanceled:
		return "user_canceled"
	case CertRequired:
		return "certificate_required"
	case NoProtocol:
		return "no_application_protocol"
	}
	return fmt.Sprintf("alert(%d)", uint8(a))
}

// An Error is why a connection's records cannot go on.
type Error struct {
	// Alert is what to tell the peer; or, if Remote, what the peer told us, and
	// nothing is to be sent.
	Alert  Alert
	Remote bool
	// Reason says what was wrong.
	Reason string
}

// Error says who refused, and why.
func (e *Error) Error() string {
	if e.Remote {
		return "tls: peer sent alert " + e.Alert.String()
	}
	return "tls: " + e.Reason + " (" + e.Alert.String() + ")"
}

// refuse makes the error of a peer that broke a rule.
func refuse(a Alert, reason string) *Error { return &Error{Alert: a, Reason: reason} }
