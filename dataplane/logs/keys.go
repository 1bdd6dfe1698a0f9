package logs

// The scopes that have a meaning of their own. A logger gets one by
// With(KeyScope, scope); without one a line belongs to ScopeApp.
const (
	ScopeApp    = "app"
	ScopeAccess = "access"
)

// KeyScope is the attribute that names the module that a logger belongs to. It
// is a part of the line, not a field.
const KeyScope = "scope"

// The fields of a flow's line, in the order of the line. The first ones are those
// of the mesh's own proxy. Bytes sent and received are as the pod's application
// sees them.
const (
	keySrcAddr      = "src.addr"
	keySrcWorkload  = "src.workload"
	keySrcNamespace = "src.namespace"
	keySrcIdentity  = "src.identity"
	keyDstAddr      = "dst.addr"
	keyDstHBONE     = "dst.hbone_addr"
	keyDstWorkload  = "dst.workload"
	keyDstNamespace = "dst.namespace"
	keyDstIdentity  = "dst.identity"
	keyDirection    = "direction"
	keyBytesSent    = "bytes_sent"
	keyBytesRecv    = "bytes_recv"
	keyDuration     = "duration"
	keyError        = "error"

	// Ours, always behind them.
	keyPath        = "path"
	keyVerdict     = "verdict"
	keyReason      = "reason"
	keySource      = "source.addr"
	keyUpBytes     = "up_bytes" // from client to server, whatever the direction
	keyDownBytes   = "down_bytes"
	keyUpSpliced   = "up_spliced"
	keyDownSpliced = "down_spliced"
	keyFlow        = "flow"
)
