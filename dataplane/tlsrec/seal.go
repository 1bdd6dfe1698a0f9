package tlsrec

import (
	"errors"
	"fmt"
)

// Why nothing is sealed.
var (
	// ErrClosed says that an alert was sealed, after which nothing may be sent.
	ErrClosed = errors.New("tls: connection is closed for writing")
	// ErrOwes says that AppendOwed comes first.
	ErrOwes = errors.New("tls: a KeyUpdate has to be sent before more data")
)

// Owes reports that AppendOwed has something to send. Ask before each batch of
// records is sealed; Seal, SealEach and SealTo refuse otherwise.
func (c *Conn) Owes() bool {
	return c.owe != oweNothing || c.write.seq >= updateAfter && !c.closed
}

// OwesWithin reports that Owes may become true before so many more records are
// sealed: call RequestUpdate and AppendOwed before they are laid out.
func (c *Conn) OwesWithin(records int) bool {
	return c.Owes() || c.write.seq+uint64(records) >= updateAfter && !c.closed
}

// OwedLen is the most that AppendOwed appends.
const OwedLen = Overhead + messageHeaderLen + 1

// AppendOwed appends the records that have to be sent before more data: a
// KeyUpdate, because the peer asked for it, because this key is near its limit or
// because RequestUpdate was called. What is sealed from now on has the new key,
// so the bytes belong behind all that were sealed before and in front of all that
// will be.
func (c *Conn) AppendOwed(b []byte) ([]byte, error) {
	if !c.Owes() || c.closed {
		return b, nil
	}
	body := [...]byte{keyUpdate, 0, 0, 1, updateNotRequested}
	if c.owe == oweRequest {
		body[4] = updateRequested
	}
	b, err := c.appendRecord(b, typeHandshake, body[:])
	if err != nil {
		return b, err
	}
	c.owe = oweNothing
	if err := c.write.update(c.suite, c.impl); err != nil {
		c.closed = true
		return b, fmt.Errorf("tls: update keys: %w", err)
	}
	return b, nil
}

// RequestUpdate makes a KeyUpdate of ours be owed; request says that the peer is
// asked for its next key, too.
func (c *Conn) RequestUpdate(request bool) {
	switch {
	case c.closed:
	case request:
		c.owe, c.asked = oweRequest, true
	default:
		c.owe = max(c.owe, oweUpdate)
	}
}

// AppendAlert appends a record with an alert, and closes the connection for
// writing. For CloseNotify the other direction may go on.
func (c *Conn) AppendAlert(b []byte, a Alert) ([]byte, error) {
	level := byte(2) // fatal
	if a == CloseNotify || a == UserCanceled {
		level = 1
	}
	b, err := c.appendRecord(b, typeAlert, []byte{level, byte(a)})
	if err != nil {
		return b, err
	}
	c.closed, c.owe = true, oweNothing
	return b, nil
}

// AlertLen is what AppendAlert appends.
const AlertLen = Overhead + 2

// Seal seals the record at the start of b: HeaderLen bytes of room, n bytes of
// payload, and TrailerLen bytes of room. It returns the record's length, which is
// n + Overhead; on error nothing was sealed.
func (c *Conn) Seal(b []byte, n int) (int, error) {
	size := n + Overhead
	if n < 0 || n > MaxPlaintext || len(b) < size {
		panic(fmt.Sprintf("tlsrec: seal %d bytes in %d; want at most %d, and room for %d more", n, len(b), MaxPlaintext, Overhead))
	}
	if err := c.maySeal(1); err != nil {
		return 0, err
	}
	c.seal(b[:size], b[HeaderLen:HeaderLen+n], typeApplicationData)
	return size, nil
}

// SealEach seals the records that fill b back to back, each size bytes long and laid
// out as for Seal; the last may be shorter. On error nothing was sealed.
func (c *Conn) SealEach(b []byte, size int) error {
	if len(b) == 0 {
		return nil
	}
	if size < Overhead || size > MaxSealed || len(b) < Overhead || len(b)%size != 0 && len(b)%size < Overhead {
		panic(fmt.Sprintf("tlsrec: seal %d bytes as records of %d; want %d to %d each", len(b), size, Overhead, MaxSealed))
	}
	if err := c.maySeal((len(b) + size - 1) / size); err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(size, len(b))
		c.seal(b[:n], b[HeaderLen:n-TrailerLen], typeApplicationData)
		b = b[n:]
	}
	return nil
}

// SealTo seals src into dst, as records of MaxPlaintext and what is left, and
// returns their length, which is SealedLen(len(src)). The two must not overlap. On
// error nothing was sealed.
func (c *Conn) SealTo(dst, src []byte) (int, error) {
	total := SealedLen(len(src))
	if len(dst) < total {
		panic(fmt.Sprintf("tlsrec: seal %d bytes to %d; want room for %d", len(src), len(dst), total))
	}
	if err := c.maySeal((len(src) + MaxPlaintext - 1) / MaxPlaintext); err != nil {
		return 0, err
	}
	for len(src) > 0 {
		p := min(MaxPlaintext, len(src))
		n := p + Overhead
		c.seal(dst[:n], src[:p], typeApplicationData)
		dst, src = dst[n:], src[p:]
	}
	return total, nil
}

// appendRecord appends a record that is not data.
func (c *Conn) appendRecord(b []byte, t contentType, body []byte) ([]byte, error) {
	switch {
	case c.closed:
		return b, ErrClosed
	case c.write.exhausted():
		return b, refuse(InternalError, "sequence numbers of sent records are used up")
	}
	at, n := len(b), len(body)+Overhead
	b = append(b, make([]byte, n)...)
	c.seal(b[at:], body, t)
	return b, nil
}

// maySeal reports why the next n records of data may not be sealed, or nil.
func (c *Conn) maySeal(n int) error {
	switch {
	case c.closed:
		return ErrClosed
	case c.Owes():
		return ErrOwes
	case uint64(n) > recordLimit-c.write.seq: // Owes has seen to seq < recordLimit
		return refuse(InternalError, "more records at once than one key may seal")
	}
	return nil
}

// seal seals payload as the record that fills rec; payload is in its place there,
// or elsewhere.
func (c *Conn) seal(rec, payload []byte, t contentType) {
	putHeader(rec, len(rec))
	c.write.key.SealRecord(rec[HeaderLen:HeaderLen:len(rec)], c.write.take(), payload, t, rec[:HeaderLen])
}
