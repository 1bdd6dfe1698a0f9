package end

import (
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Fill moves what the socket has into the empty pipe p. It can't tell FIN from
// urgent data with a FIN somewhere behind it (tcp_splice_read): Ended means that
// Pull has to look.
func (s *Socket) Fill(p *splice.Pipe) (n int, next Wait, err error) {
	if !s.readable {
		return 0, ForReadable, nil
	}
	n, err = p.Fill(&s.fd)
	switch {
	case err == sys.EAGAIN:
		s.readable = false
		return 0, ForReadable, nil
	case err != nil:
		return 0, Ended, s.broken(err)
	case n == 0:
		return 0, Ended, nil
	}
	return n, Nothing, nil
}

// Drain moves what p holds to the socket, as far as it takes it.
func (s *Socket) Drain(p *splice.Pipe) (n int, next Wait, err error) {
	if s.held != nil || !s.writable {
		s.waiting = true
		return 0, ForRoom, nil
	}
	n, err = p.Drain(&s.fd)
	switch {
	case err == sys.EAGAIN:
		s.writable, s.waiting = false, true
		return 0, ForRoom, nil
	case err != nil:
		return 0, Ended, s.broken(err)
	}
	return n, Nothing, nil
}

// Urgent reports that urgent data is in the way: splice does not get past it, and
// Pull does.
func (s *Socket) Urgent() bool { return s.urgent }
