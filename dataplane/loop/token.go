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

// slot is one registration, or a place for one. Slots come in pages, so that
// none ever moves and nothing is left behind when there are more of them.
type slot struct {
	src  Source // nil when free
	gen  uint32
	free uint32 // the next free slot; 0 is none
}

const slotPage = 256

func (l *Loop) slot(i uint32) *slot { return &l.slots[i/slotPage][i%slotPage] }

// morePages adds a page whose slots are free, but for slot 0, the eventfd's.
func (l *Loop) morePages() {
	first := uint32(len(l.slots) * slotPage)
	l.slots = append(l.slots, new([slotPage]slot))
	for n := uint32(slotPage); n > 0; n-- {
		if i := first + n - 1; i > 0 {
			l.giveSlot(i)
		}
	}
}

// takeSlot finds a free slot.
func (l *Loop) takeSlot() (i uint32, s *slot) {
	if l.freeSlot == 0 {
		l.morePages()
	}
	i = l.freeSlot
	s = l.slot(i)
	l.freeSlot = s.free
	return i, s
}

func (l *Loop) giveSlot(i uint32) {
	l.slot(i).free = l.freeSlot
	l.freeSlot = i
}

// Add watches f for bits, with src as its source, until Remove. The caller
// keeps f.
func (l *Loop) Add(f *sys.FD, bits sys.Bits, src Source) (Token, error) {
	l.onLoop()
	i, s := l.takeSlot()
	tok := makeToken(i, s.gen)
	if err := l.poller.Add(f, bits, uint64(tok)); err != nil {
		l.giveSlot(i)
		return 0, err
	}
	s.src = src
	return tok, nil
}

// Remove ends the registration tok, before its descriptor is closed. Closing
// tells the kernel; see Detach for a descriptor that stays open.
func (l *Loop) Remove(tok Token) {
	l.onLoop()
	s := l.slot(uint32(tok))
	if s.gen != uint32(tok>>32) || s.src == nil {
		panic(fmt.Sprintf("loop: token %x removed twice", uint64(tok)))
	}
	s.src = nil
	s.gen++
	l.giveSlot(uint32(tok))
}

// Detach ends the registration tok of f, which leaves this loop open: for
// another loop, or another process. The kernel would go on reporting it here.
func (l *Loop) Detach(tok Token, f *sys.FD) error {
	l.Remove(tok)
	return l.poller.Remove(f)
}

func (l *Loop) dispatch(ev *sys.Event) {
	tok := Token(ev.Data())
	s := l.slot(uint32(tok))
	if s.gen != uint32(tok>>32) || s.src == nil {
		l.Metrics.Inc(metric.StaleEvents)
		return
	}
	l.serving = s.src
	s.src.Ready(ev.Bits())
}
