package tlsrec

import "fmt"

// maxHello is the longest ClientHello that is taken, in bytes. Those with a
// post-quantum key share have under 2 KiB.
const maxHello = 16 << 10

const clientHello = 1

// A hello follows a ClientHello, which may be spread over records, as its bytes
// arrive. It looks at each record once.
type hello struct {
	at   int // where the next record starts
	got  int // bytes of the message in the records before at
	head [messageHeaderLen]byte
}

// whole reports whether b, which starts as it did at the last call, holds the
// whole message. What can't become one is refused at once.
func (h *hello) whole(b []byte) (bool, error) {
	for {
		rec := b[h.at:]
		if err := checkFirst(rec, h.at == 0); err != nil {
			return false, err
		}
		if len(rec) < HeaderLen {
			return false, nil
		}
		n := int(rec[3])<<8 | int(rec[4])
		switch {
		case n == 0:
			return false, refuse(UnexpectedMessage, "empty record in ClientHello")
		case n > MaxPlaintext:
			return false, refuse(RecordOverflow, "record of ClientHello is longer than 16384 bytes")
		case len(rec) < HeaderLen+n:
			return false, nil
		}
		if h.got < messageHeaderLen {
			copy(h.head[h.got:], rec[HeaderLen:HeaderLen+n])
			if h.head[0] != clientHello {
				return false, refuse(UnexpectedMessage, "first message is not a ClientHello")
			}
		}
		h.at += HeaderLen + n
		h.got += n
		if h.got < messageHeaderLen {
			continue
		}
		need := int(h.head[1])<<16 | int(h.head[2])<<8 | int(h.head[3])
		if need > maxHello {
			return false, refuse(IllegalParameter, fmt.Sprintf("ClientHello of %d bytes; at most %d are taken", need, maxHello))
		}
		if h.got >= messageHeaderLen+need {
			return true, nil
		}
	}
}

// checkFirst refuses what does not start like a record of a ClientHello.
func checkFirst(rec []byte, start bool) error {
	switch {
	case len(rec) > 0 && rec[0] != typeHandshake:
		if !start {
			return refuse(UnexpectedMessage, "another record in the middle of ClientHello")
		}
		return refuse(UnexpectedMessage, fmt.Sprintf("not TLS: connection starts with %q", rec[:min(len(rec), 16)]))
	case len(rec) > 1 && rec[1] != 3:
		return refuse(ProtocolVersion, fmt.Sprintf("not TLS 1.3: record of version %d", rec[1]))
	}
	return nil
}
