package loop

import (
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Source is told what happened to the descriptor that it added.
type Source interface{ Ready(bits sys.Bits) }

// A Token names one registration; the kernel hands it back with each event.
//
// Descriptor numbers are reused at once after close, so a token carries the
// slot's generation. An event that was queued before a Remove finds a newer
// generation in the slot and is dropped and counted.
type Token uint64

func makeToken(slot, gen uint32) Token { return Token(gen)<<32 | Token(slot) }

type slot struct {
	src Source
	gen uint32
}

// Add watches f for bits, with src as its source, until Remove. The caller
// keeps f.
func (l *Loop) Add(f *sys.FD, bits sys.Bits, src Source) (Token, error) {
	l.onLoop()
	var i uint32
	if n := len(l.unused); n > 0 {
		i = l.unused[n-1]
		l.unused = l.unused[:n-1]
	} else {
		i = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	s := &l.slots[i]
	tok := makeToken(i, s.gen)
	if err := l.poller.Add(f, bits, uint64(tok)); err != nil {
		l.unused = append(l.unused, i)
		return 0, err
	}
	s.src = src
	return tok, nil
}

// Remove ends the registration tok, before its descriptor is closed. Closing
// tells the kernel; see Detach for a descriptor that stays open.
func (l *Loop) Remove(tok Token) {
	l.onLoop()
	i := uint32(tok)
	s := &l.slots[i]
	if s.gen != uint32(tok>>32) || s.src == nil {
		panic(fmt.Sprintf("loop: token %x removed twice", uint64(tok)))
	}
	s.src = nil
	s.gen++
	l.unused = append(l.unused, i)
}

// Detach ends the registration tok of f, which leaves this loop open: for
// another loop, or another process. The kernel would go on reporting it here.
func (l *Loop) Detach(tok Token, f *sys.FD) error {
	l.Remove(tok)
	return l.poller.Remove(f)
}

func (l *Loop) dispatch(ev *sys.Event) {
	tok := Token(ev.Data())
	s := &l.slots[uint32(tok)]
	if s.gen != uint32(tok>>32) || s.src == nil {
		l.Metrics.Inc(metric.StaleEvents)
		return
	}
	l.serving = s.src
	s.src.Ready(ev.Bits())
}
