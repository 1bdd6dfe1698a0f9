package hbone

// waiters are streams that have more to send than there is room for, in the order in
// which they came: each gets a share, then the next one.
type waiters struct {
	first, last *Stream
}

func (w *waiters) push(s *Stream) {
	if s.waiting {
		return
	}
	s.waiting, s.served, s.next = true, 0, nil
	if w.first == nil {
		w.first = s
	} else {
		w.last.next = s
	}
	w.last = s
}

func (w *waiters) pop() *Stream {
	s := w.first
	if s != nil {
		w.first = s.next
		s.waiting, s.next = false, nil
	}
	return s
}

func (w *waiters) remove(s *Stream) {
	if !s.waiting {
		return
	}
	var before *Stream
	for x := w.first; x != s; x = x.next {
		before = x
	}
	if before == nil {
		w.first = s.next
	} else {
		before.next = s.next
	}
	if w.last == s {
		w.last = before
	}
	s.waiting, s.next = false, nil
}
