package h2

// A Request is what a server's peer asks for. All slices are lent.
type Request struct {
	// Method is CONNECT for a tunnel's streams. Any other comes with the pseudo-header
	// fields that RFC 9113 demands of it, and is the caller's to refuse with a status.
	Method    []byte
	Authority []byte // as it was sent; never empty for CONNECT

	Forwarded   []byte // the first of its name; nil when there is none
	TraceParent []byte // the first of its name; nil when there is none
	Network     []byte // x-forwarded-network, likewise; not nil when it is there and empty
	Baggage     []byte // all of its name, joined by commas; nil when there is none

	// TooLarge says that the fields exceed our SETTINGS_MAX_HEADER_LIST_SIZE: answer
	// 431. The other fields are not to be used.
	TooLarge bool
}

// Connect reports whether the method is CONNECT.
func (r *Request) Connect() bool { return string(r.Method) == "CONNECT" }

// A Response is what a client's peer answers. Baggage is lent.
type Response struct {
	Status   int    // 100 to 999; 0 when TooLarge
	Baggage  []byte // all of its name, joined by commas; nil when there is none
	TooLarge bool   // as in Request
}

// Final is false for an interim response, behind which another one comes.
func (r *Response) Final() bool { return r.Status >= 200 || r.TooLarge }

// A Decoder reads the field sections of one connection's peer. Each HEADERS event of
// the connection must come to it, also one that is ignored: until the peer has read
// our SETTINGS, blocks change what later ones mean.
type Decoder struct {
	fields fieldReader
	limit  int  // SETTINGS_MAX_HEADER_LIST_SIZE of ours
	joined text // values that came in pieces
}

// NewDecoder makes the Decoder of a new connection. What it reads is at most limit
// bytes, counted as for SETTINGS_MAX_HEADER_LIST_SIZE; longer sections are TooLarge.
func NewDecoder(limit int) Decoder {
	d := Decoder{limit: limit}
	d.fields.allowed, d.fields.table.max = defaultHeaderTableBytes, defaultHeaderTableBytes
	return d
}

// SettingsAcked says that the peer has acknowledged our first SETTINGS, which has
// SettingHeaderTableSize 0: it may not use a table any more.
func (d *Decoder) SettingsAcked() {
	d.fields.allowed = 0
	d.fields.update = d.fields.table.max > 0
}

// Request reads the block of a HEADERS event that opens a stream of the peer.
func (d *Decoder) Request(ev *Event, to *Request) error {
	s := section{kind: request}
	if err := d.read(ev, &s); err != nil {
		return err
	}
	*to = Request{
		Method: s.pseudo[method], Authority: s.pseudo[authority], Forwarded: s.forwarded,
		TraceParent: s.traceParent, Network: s.network, Baggage: s.baggage, TooLarge: s.tooLarge,
	}
	return nil
}

// Response reads the block of a HEADERS event on a stream of ours.
func (d *Decoder) Response(ev *Event, to *Response) error {
	s := section{kind: response}
	if err := d.read(ev, &s); err != nil {
		return err
	}
	*to = Response{TooLarge: s.tooLarge, Baggage: s.baggage}
	if s.tooLarge {
		return nil
	}
	v := s.pseudo[status]
	to.Status = int(v[0]-'0')*100 + int(v[1]-'0')*10 + int(v[2]-'0')
	return nil
}

// Skip reads the block of a HEADERS event that is ignored.
func (d *Decoder) Skip(ev *Event) error {
	s := section{kind: skipped}
	return d.read(ev, &s)
}

// read reads all fields of a block. What breaks compression ends the connection; a
// section that is only malformed is read to its end first (RFC 9113 4.3, 8.1.1).
func (d *Decoder) read(ev *Event, s *section) error {
	if cap(d.joined) > keepText {
		d.joined = nil
	}
	d.joined = d.joined[:0]
	size := 0
	b, ok := d.fields.begin(ev.Data)
	for ok && len(b) > 0 {
		var name, value []byte
		if name, value, b, ok = d.fields.next(b); !ok {
			break
		}
		size += len(name) + len(value) + fieldOverhead
		if size > d.limit {
			s.tooLarge = true
		} else if s.kind != skipped {
			s.add(d, name, value)
		}
	}
	if !ok {
		return connFault(CompressionError, "a field block can't be decompressed, or uses a table that we refused (RFC 9113 4.3)")
	}
	if s.kind == skipped {
		return nil
	}
	if !s.tooLarge {
		s.complete()
	}
	if s.fault != "" {
		return streamFault(ev.Stream, ProtocolError, s.fault)
	}
	return nil
}
