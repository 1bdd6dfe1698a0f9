package logs

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"time"
)

// line builds lines in a buffer that is used again, so that one costs no
// allocation: a busy node writes thousands in a second.
type line struct {
	buf    []byte
	format Format
	fields int
}

const timeFormat = "2006-01-02T15:04:05.000000Z"

// begin starts a line.
func (l *line) begin(at time.Time, level, scope, message string) {
	l.fields = 0
	if l.format == JSON {
		l.buf = append(l.buf, `{"level":"`...)
		l.buf = append(l.buf, level...)
		l.buf = append(l.buf, `","time":"`...)
		l.buf = at.UTC().AppendFormat(l.buf, timeFormat)
		l.buf = append(l.buf, `","scope":`...)
		l.buf = appendJSON(l.buf, scope)
		l.buf = append(l.buf, `,"message":`...)
		l.buf = appendJSON(l.buf, message)
		return
	}
	l.buf = at.UTC().AppendFormat(l.buf, timeFormat)
	l.buf = append(l.buf, '\t')
	l.buf = append(l.buf, level...)
	l.buf = append(l.buf, '\t')
	l.buf = append(l.buf, scope...)
	l.buf = append(l.buf, '\t')
	l.buf = appendBare(l.buf, message)
	l.buf = append(l.buf, '\t')
}

// end completes the line.
func (l *line) end() {
	if l.format == JSON {
		l.buf = append(l.buf, '}')
	}
	l.buf = append(l.buf, '\n')
}

func (l *line) key(key string) {
	if l.format == JSON {
		l.buf = append(l.buf, ',')
		l.buf = appendJSON(l.buf, key)
		l.buf = append(l.buf, ':')
		return
	}
	if l.fields > 0 {
		l.buf = append(l.buf, ' ')
	}
	l.fields++
	l.buf = append(l.buf, key...)
	l.buf = append(l.buf, '=')
}

// text adds a string, in quotes.
func (l *line) text(key, v string) {
	l.key(key)
	if l.format == JSON {
		l.buf = appendJSON(l.buf, v)
	} else {
		l.buf = appendPlain(l.buf, v)
	}
}

// number adds a count.
func (l *line) number(key string, v uint64) {
	l.key(key)
	l.buf = strconv.AppendUint(l.buf, v, 10)
}

// literal adds what JSON knows too and is not quoted: a number, true or false.
func (l *line) literal(key, v string) {
	l.key(key)
	l.buf = append(l.buf, v...)
}

// addr adds an address, with its port unless that is 0: the kernel's to choose.
func (l *line) addr(key string, a netip.AddrPort) {
	l.key(key)
	if l.format == JSON {
		l.buf = append(l.buf, '"')
	}
	if a.Port() != 0 {
		l.buf = a.AppendTo(l.buf)
	} else {
		l.buf = a.Addr().AppendTo(l.buf)
	}
	if l.format == JSON {
		l.buf = append(l.buf, '"')
	}
}

// milliseconds adds a duration as the mesh's own proxy does.
func (l *line) milliseconds(key string, d time.Duration) {
	l.key(key)
	l.buf = append(l.buf, '"')
	l.buf = strconv.AppendInt(l.buf, d.Milliseconds(), 10)
	l.buf = append(l.buf, `ms"`...)
}

// appendBare adds a message; what would break the line is escaped.
func appendBare(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' {
			quoted := strconv.Quote(s)
			return append(b, quoted[1:len(quoted)-1]...)
		}
	}
	return append(b, s...)
}

// appendPlain adds a string in quotes, with Go's escapes.
func appendPlain(b []byte, s string) []byte {
	if !simple(s) {
		return strconv.AppendQuote(b, s)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendJSON adds a JSON string.
func appendJSON(b []byte, s string) []byte {
	if simple(s) {
		return appendPlain(b, s)
	}
	text, err := json.Marshal(s)
	if err != nil { // a string always can be
		return append(b, `""`...)
	}
	return append(b, text...)
}

// simple reports a string that needs no escapes in either format.
func simple(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}
