package hbone

import (
	"errors"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// frames reads the frames in one record's payload.
func (t *Tunnel) frames(p []byte) {
	for !t.closed {
		ev, rest, err := t.reader.Next(p)
		p = rest
		if err == nil {
			if ev.Kind == h2.KindNone {
				return
			}
			err = t.event(&ev)
		}
		if err != nil && !t.closed {
			t.fault(err)
		}
	}
}

// fault answers what the peer did wrong: by the end of a stream, or of the tunnel.
func (t *Tunnel) fault(err error) {
	if of, ok := errors.AsType[*h2.StreamError](err); ok {
		if err := t.flood.Count(h2.Faults, t.loop.Now()); err != nil {
			t.fault(err)
			return
		}
		t.loop.Metrics.Inc(metric.StreamFaults)
		if s := t.streams[of.Stream]; s != nil {
			s.faulty(of)
			return
		}
		t.send(h2.AppendReset(t.frame[:0], of.Stream, of.Code))
		return
	}
	code := h2.InternalError
	if of, ok := errors.AsType[*h2.ConnError](err); ok {
		code = of.Code
	}
	t.loop.Metrics.Inc(metric.TunnelFaults)
	t.leave(code, err.Error())
	t.Fail(flow.CloseProtocol, err)
}

// event deals with one event.
func (t *Tunnel) event(ev *h2.Event) error {
	switch ev.Kind {
	case h2.KindData:
		return t.data(ev)
	case h2.KindHeaders:
		return t.headers(ev)
	case h2.KindReset:
		return t.peerReset(ev)
	case h2.KindWindowUpdate:
		return t.windowUpdate(ev)
	case h2.KindSettings:
		return t.settings(ev)
	case h2.KindSettingsAck:
		t.decoder.SettingsAcked()
		return t.flood.Count(h2.SettingsSent, t.loop.Now())
	case h2.KindPing:
		t.send(h2.AppendPingAck(t.frame[:0], ev.Data))
		return t.flood.Count(h2.Pings, t.loop.Now())
	case h2.KindPingAck:
		return t.flood.Count(h2.Pings, t.loop.Now())
	case h2.KindGoAway:
		t.goAway(ev)
		return nil
	case h2.KindIgnored:
		return t.flood.Count(h2.Ignored, t.loop.Now())
	case h2.KindNone:
	}
	return nil
}

func (t *Tunnel) data(ev *h2.Event) error {
	if ev.First && !t.inflow.Take(ev.Length) {
		return &h2.ConnError{Code: h2.FlowControlError, Reason: "DATA beyond the connection's window (RFC 9113 6.9.1)"}
	}
	if ev.First && ev.Length == 0 && !ev.End {
		if err := t.flood.Count(h2.Empties, t.loop.Now()); err != nil {
			return err
		}
	}
	// What has left the wire is given back at once: a stream that is read slowly
	// must not starve the others.
	t.inflow.Owe(ev.Wire)
	if more := t.inflow.Grant(connWindow / 8); more > 0 {
		t.send(h2.AppendWindowUpdate(t.frame[:0], 0, more))
	}
	s := t.streams[ev.Stream]
	if s == nil {
		if ev.First {
			_, err := t.ids.Admit(ev)
			return err
		}
		return nil
	}
	if err := s.h2.Data(ev); err != nil {
		return err
	}
	if pad := ev.Wire - uint32(len(ev.Data)); pad > 0 {
		s.h2.Recv.Owe(pad)
	}
	b := t.box
	if len(ev.Data) > 0 {
		i := int32(len(b.pieces))
		b.pieces = append(b.pieces, piece{ev.Data, -1})
		if s.first < 0 {
			s.first = i
		} else {
			b.pieces[s.last].next = i
		}
		s.last = i
	}
	if len(ev.Data) > 0 || ev.End {
		t.touch(s)
	}
	return nil
}

func (t *Tunnel) touch(s *Stream) {
	if !s.touched {
		s.touched = true
		t.box.touched = append(t.box.touched, s)
	}
}

func (t *Tunnel) headers(ev *h2.Event) error {
	s := t.streams[ev.Stream]
	switch {
	case s == nil:
		return t.request(ev)
	case t.role == h2.Server:
		if err := t.decoder.Skip(ev); err != nil {
			return err
		}
		return s.h2.Headers(ev, true) // it can only be wrong
	}
	var r h2.Response
	if err := t.decoder.Response(ev, &r); err != nil {
		return err
	}
	if err := s.h2.Headers(ev, r.Final()); err != nil || !r.Final() {
		return err
	}
	if r.Status != 200 {
		s.answer(flow.CloseStatus, StatusError(r.Status))
		return nil
	}
	if ev.End {
		t.touch(s)
	}
	s.answer(flow.Open, nil)
	return nil
}

// request takes a stream that the peer opens.
func (t *Tunnel) request(ev *h2.Event) error {
	fresh, err := t.ids.Admit(ev)
	if !fresh {
		if broken := t.decoder.Skip(ev); broken != nil {
			return broken
		}
		return err
	}
	s := &Stream{tunnel: t, first: -1, h2: h2.NewStream(ev.Stream, t.peer.Window, streamWindow)}
	t.streams[ev.Stream] = s
	t.loop.Metrics.Move(metric.OpenStreams, 1)
	var r h2.Request
	if err := t.decoder.Request(ev, &r); err != nil {
		return err
	}
	if err := s.h2.Headers(ev, true); err != nil {
		return err
	}
	if ev.End {
		t.touch(s)
	}
	t.acceptor.Connect(s, &r)
	return nil
}

func (t *Tunnel) peerReset(ev *h2.Event) error {
	s := t.streams[ev.Stream]
	if s == nil {
		_, err := t.ids.Admit(ev)
		return err
	}
	if t.role == h2.Server && !s.answered {
		if err := t.flood.Count(h2.EarlyResets, t.loop.Now()); err != nil {
			return err
		}
	}
	s.wasReset, s.reset = true, ev.Code
	t.remove(s, false)
	t.touch(s)
	return nil
}

func (t *Tunnel) windowUpdate(ev *h2.Event) error {
	if ev.Stream == 0 {
		if !t.window.Add(ev.Increment) {
			return &h2.ConnError{Code: h2.FlowControlError, Reason: "WINDOW_UPDATE takes the connection's window above 2^31-1 (RFC 9113 6.9.1)"}
		}
		return nil
	}
	s := t.streams[ev.Stream]
	if s == nil {
		_, err := t.ids.Admit(ev)
		return err
	}
	if err := s.h2.WindowUpdate(ev); err != nil {
		return err
	}
	t.unblock(s)
	return nil
}

// unblock has a stream that was without credit wait for its turn.
func (t *Tunnel) unblock(s *Stream) {
	if s.blocked && s.h2.Send.Left() > 0 {
		s.blocked = false
		t.waiters.push(s)
	}
}

func (t *Tunnel) settings(ev *h2.Event) error {
	if err := t.flood.Count(h2.SettingsSent, t.loop.Now()); err != nil {
		return err
	}
	before := t.peer.Window
	sized, err := t.peer.Apply(ev.Data, t.role)
	if err != nil {
		return err
	}
	t.sized = t.sized || sized
	for _, s := range t.streams {
		if !s.h2.Send.Shift(int64(t.peer.Window) - int64(before)) {
			return &h2.ConnError{Code: h2.FlowControlError, Reason: "SETTINGS_INITIAL_WINDOW_SIZE takes a stream's window above 2^31-1 (RFC 9113 6.9.2)"}
		}
		t.unblock(s)
	}
	t.send(h2.AppendSettingsAck(t.frame[:0]))
	t.openPending()
	return nil
}

// goAway ends the streams that the peer will not serve, and opens no more.
func (t *Tunnel) goAway(ev *h2.Event) {
	t.ids.GoAway(ev)
	var undone []*Stream
	for id, s := range t.streams {
		if t.ids.Unprocessed(id) {
			undone = append(undone, s)
		}
	}
	for _, s := range undone {
		if !s.gone {
			t.remove(s, false)
			s.refused()
		}
	}
	t.giveUpPending()
	t.settle()
}
