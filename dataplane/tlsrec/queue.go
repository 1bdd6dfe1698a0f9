package tlsrec

// The lists that a handshake is in.
const (
	listRole = iota
	listPod
	listPeer
	lists
)

// links are a handshake's place in one list.
type links struct{ prev, next *Handshake }

// A queue is a list of open handshakes, the oldest first.
type queue struct {
	list       int // which links
	head, tail *Handshake
	n          int
}

func (q *queue) push(h *Handshake) {
	h.listed = true
	h.links[q.list] = links{prev: q.tail}
	if q.tail == nil {
		q.head = h
	} else {
		q.tail.links[q.list].next = h
	}
	q.tail = h
	q.n++
}

// remove takes h out and returns how many are left.
func (q *queue) remove(h *Handshake) int {
	l := &h.links[q.list]
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.links[q.list].next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.links[q.list].prev = l.prev
	}
	*l = links{}
	h.listed = false
	q.n--
	return q.n
}
