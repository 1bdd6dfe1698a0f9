package h2

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// A move is one thing that happens to a connection's streams, in the notation of the
// tests below.
type move func(c *conn) error

// A conn is the table of open streams as a connection keeps it.
type conn struct {
	ids  Streams
	peer Settings
	open map[uint32]*Stream
}

func newConn(role Role, limit uint32) *conn {
	return &conn{ids: NewStreams(role, limit), peer: DefaultSettings(), open: map[uint32]*Stream{}}
}

// recv takes in one event as a connection does.
func recv(kind Kind, id uint32, change ...func(*Event)) move {
	return func(c *conn) error {
		ev := &Event{Kind: kind, Stream: id}
		for _, f := range change {
			f(ev)
		}
		s := c.open[id]
		if s == nil {
			opens, err := c.ids.Admit(ev)
			if !opens {
				return err
			}
			fresh := NewStream(id, c.peer.Window, 100)
			s = &fresh
			c.open[id] = s
		}
		switch kind {
		case KindHeaders:
			return s.Headers(ev, ev.Code == NoError)
		case KindData:
			return s.Data(ev)
		case KindWindowUpdate:
			return s.WindowUpdate(ev)
		case KindReset:
			delete(c.open, id)
			c.ids.Close(id, false)
		}
		return nil
	}
}

func end(ev *Event)     { ev.End = true }
func interim(ev *Event) { ev.Code = 1 } // of no meaning in HEADERS
func length(n uint32) func(*Event) {
	return func(ev *Event) { ev.First, ev.Length = true, n }
}
func increment(n uint32) func(*Event) { return func(ev *Event) { ev.Increment = n } }

func reset(id uint32) move {
	return func(c *conn) error {
		delete(c.open, id)
		c.ids.Close(id, true)
		return nil
	}
}

// both ends a stream on both sides.
func both(id uint32) move {
	return func(c *conn) error {
		s := c.open[id]
		s.SentHeaders(true)
		if err := s.Data(&Event{End: true}); err != nil || !s.Done() {
			return errors.New("not done")
		}
		delete(c.open, id)
		c.ids.Close(id, false)
		return nil
	}
}

func open(c *conn) error {
	id, err := c.ids.Open(&c.peer)
	if err != nil {
		return err
	}
	s := NewStream(id, c.peer.Window, 100)
	s.SentHeaders(false)
	c.open[id] = &s
	return nil
}

func leave(last uint32) move { return func(c *conn) error { c.ids.Leave(last); return nil } }
func away(last uint32) move {
	return func(c *conn) error { c.ids.GoAway(&Event{Last: last}); return nil }
}

// Which frames a stream may get in which state, and where the fault ends.
func TestRFC9113Streams(t *testing.T) {
	const H, D, R, W = KindHeaders, KindData, KindReset, KindWindowUpdate
	for _, tt := range []struct {
		name  string // section, and what it demands
		role  Role
		moves []move
		want  string // of the last move; those before are fine
	}{
		{"5.1 idle: HEADERS opens", Server, []move{recv(H, 1)}, "fine"},
		{"5.1 idle: DATA", Server, []move{recv(D, 1)}, "connection: PROTOCOL_ERROR"},
		{"5.1 idle: RST_STREAM", Server, []move{recv(R, 1)}, "connection: PROTOCOL_ERROR"},
		{"5.1 idle: WINDOW_UPDATE", Server, []move{recv(W, 1)}, "connection: PROTOCOL_ERROR"},
		{"5.1 idle: HEADERS on a stream of the server's", Server, []move{recv(H, 2)}, "connection: PROTOCOL_ERROR"},
		{"5.1 idle: DATA on a stream of the server's", Server, []move{recv(D, 2)}, "connection: PROTOCOL_ERROR"},
		{"5.1 idle: HEADERS on a stream that the client has not opened", Client, []move{recv(H, 1)}, "connection: PROTOCOL_ERROR"},
		{"5.1 idle: a server opens nothing", Client, []move{recv(H, 2)}, "connection: PROTOCOL_ERROR"},
		{"5.1 open: DATA", Server, []move{recv(H, 1), recv(D, 1, length(100))}, "fine"},
		{"5.1 half-closed (remote): DATA", Server, []move{recv(H, 1, end), recv(D, 1)}, "stream 1: STREAM_CLOSED"},
		{"5.1 half-closed (remote): HEADERS", Server, []move{recv(H, 1), recv(D, 1, end), recv(H, 1)}, "stream 1: STREAM_CLOSED"},
		{"5.1 half-closed (remote): WINDOW_UPDATE", Server, []move{recv(H, 1, end), recv(W, 1, increment(1))}, "fine"},
		{"5.1 half-closed (remote): RST_STREAM", Server, []move{recv(H, 1, end), recv(R, 1)}, "fine"},
		{"5.1 closed: WINDOW_UPDATE is ignored", Server, []move{recv(H, 1), both(1), recv(W, 1, increment(1))}, "fine"},
		{"5.1 closed: RST_STREAM is ignored", Server, []move{recv(H, 1), both(1), recv(R, 1)}, "fine"},
		{"5.1 closed: DATA", Server, []move{recv(H, 1), both(1), recv(D, 1)}, "stream 1: STREAM_CLOSED"},
		{"5.1 closed by the peer's RST_STREAM: DATA", Server, []move{recv(H, 1), recv(R, 1), recv(D, 1)}, "stream 1: STREAM_CLOSED"},
		{"5.1 closed by the server's RST_STREAM: DATA", Client, []move{open, recv(R, 1), recv(D, 1)}, "stream 1: STREAM_CLOSED"},
		{"5.1 closed by our RST_STREAM: DATA is ignored", Server, []move{recv(H, 1), reset(1), recv(D, 1)}, "fine"},
		{"5.1 closed by our RST_STREAM: HEADERS is ignored", Client, []move{open, reset(1), recv(H, 1)}, "fine"},
		{"5.1 closed by our RST_STREAM: RST_STREAM is ignored", Client, []move{open, reset(1), recv(R, 1)}, "fine"},
		{"5.1 closed: a response to a stream that ended", Client, []move{open, recv(H, 1), both(1), recv(H, 1)}, "stream 1: STREAM_CLOSED"},

		{"5.1.1 ids may skip", Server, []move{recv(H, 1), recv(H, 101)}, "fine"},
		{"5.1.1 ids grow", Server, []move{recv(H, 5), recv(H, 3)}, "connection: PROTOCOL_ERROR"},
		{"5.1.1 ids are used once", Server, []move{recv(H, 5), both(5), recv(H, 5)}, "connection: PROTOCOL_ERROR"},
		{"5.1.1 skipped ids are closed", Server, []move{recv(H, 5), recv(D, 3)}, "stream 3: STREAM_CLOSED"},
		{"5.1.2 no more streams than we allow", Server, []move{recv(H, 1), recv(H, 3), recv(H, 5)}, "stream 5: REFUSED_STREAM"},
		{"5.1.2 of one that was refused the rest is ignored", Server, []move{recv(H, 1), recv(H, 3), func(c *conn) error { _ = recv(H, 5)(c); return nil }, recv(D, 5)}, "fine"},
		{"5.1.2 one that ended makes room", Server, []move{recv(H, 1), recv(H, 3), both(1), recv(H, 5)}, "fine"},
		{"5.1.2 one that was reset makes room", Server, []move{recv(H, 1), recv(H, 3), recv(R, 1), recv(H, 5)}, "fine"},
		{"5.1.2 no more streams than the peer allows", Client, []move{func(c *conn) error { c.peer.Streams = 1; return nil }, open, open}, ErrBusy.Error()},

		{"6.8 after GOAWAY none are opened", Client, []move{open, away(1), open}, ErrNoStreams.Error()},
		{"6.8 after our GOAWAY new ones are ignored", Server, []move{recv(H, 1), leave(1), recv(H, 3)}, "fine"},
		{"6.8 and their DATA, too", Server, []move{recv(H, 1), leave(1), recv(H, 3), recv(D, 3)}, "fine"},
		{"6.8 while open ones go on", Server, []move{recv(H, 1), leave(1), recv(D, 1)}, "fine"},
		{"6.8 a first GOAWAY only warns", Server, []move{leave(MaxID), recv(H, 1), recv(D, 1)}, "fine"},

		{"6.9.1 DATA as long as the window", Server, []move{recv(H, 1), recv(D, 1, length(60)), recv(D, 1, length(40))}, "fine"},
		{"6.9.1 DATA beyond the window", Server, []move{recv(H, 1), recv(D, 1, length(60)), recv(D, 1, length(41))}, "stream 1: FLOW_CONTROL_ERROR"},
		{"6.9.1 empty DATA needs no window", Server, []move{recv(H, 1), recv(D, 1, length(100)), recv(D, 1, length(0), end)}, "fine"},
		{"6.9.1 a window of 2^31-1", Server, []move{recv(H, 1), recv(W, 1, increment(maxWindow-DefaultWindow))}, "fine"},
		{"6.9.1 a window above it", Server, []move{recv(H, 1), recv(W, 1, increment(maxWindow-DefaultWindow+1))}, "stream 1: FLOW_CONTROL_ERROR"},

		{"8.1 DATA before the response", Client, []move{open, recv(D, 1)}, "stream 1: PROTOCOL_ERROR"},
		{"8.1 DATA between interim and final response", Client, []move{open, recv(H, 1, interim), recv(D, 1)}, "stream 1: PROTOCOL_ERROR"},
		{"8.1 interim responses, then the final one", Client, []move{open, recv(H, 1, interim), recv(H, 1, interim), recv(H, 1), recv(D, 1)}, "fine"},
		{"8.1 an interim response that ends the stream", Client, []move{open, recv(H, 1, interim, end)}, "stream 1: PROTOCOL_ERROR"},
		{"8.5 HEADERS on a connected stream", Client, []move{open, recv(H, 1), recv(H, 1)}, "stream 1: PROTOCOL_ERROR"},
		{"8.5 trailers on a connected stream", Server, []move{recv(H, 1), recv(D, 1), recv(H, 1, end)}, "stream 1: PROTOCOL_ERROR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newConn(tt.role, 2)
			for i, m := range tt.moves {
				var again Streams
				if err := again.Thaw(c.ids.Freeze(nil)); err != nil {
					t.Fatal(err)
				}
				c.ids = again
				for _, s := range c.open {
					var same Stream
					if err := same.Thaw(s.Freeze(nil)); err != nil || same != *s {
						t.Fatalf("%+v became %+v, %v", *s, same, err)
					}
				}
				got, want := fault(m(c)), "fine"
				if i == len(tt.moves)-1 {
					want = tt.want
				}
				if got != want {
					t.Fatalf("move %d: %s, want %s", i, got, want)
				}
			}
		})
	}
}

// Ids run out at 2^31-1.
func TestIDsRunOut(t *testing.T) {
	peer := DefaultSettings()
	for _, role := range []Role{Client, Server} {
		s := NewStreams(role, 1)
		first, err := s.Open(&peer)
		if err != nil || first != 1+uint32(role) {
			t.Errorf("%v: first id %d, %v", role, first, err)
		}
		for s.next = MaxID - 2 - uint32(role); s.Usable(); {
			if first, err = s.Open(&peer); err != nil {
				t.Fatal(err)
			}
		}
		if _, err = s.Open(&peer); first < MaxID-1 || !errors.Is(err, ErrNoStreams) {
			t.Errorf("%v: last id %d, then %v", role, first, err)
		}
		var again Streams
		if err := again.Thaw(s.Freeze(nil)); err != nil {
			t.Error(err)
		}
	}
}

// What GOAWAY says about streams of ours, and never takes back (RFC 9113 6.8).
func TestGoAway(t *testing.T) {
	peer := DefaultSettings()
	s := NewStreams(Client, 0)
	for range 3 {
		if _, err := s.Open(&peer); err != nil {
			t.Fatal(err)
		}
	}
	lost := func() (ids []uint32) {
		for _, id := range []uint32{1, 2, 3, 5} {
			if s.Unprocessed(id) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for _, step := range []struct {
		last uint32
		want []uint32
	}{{MaxID, nil}, {3, []uint32{5}}, {5, []uint32{5}}, {1, []uint32{3, 5}}} {
		s.GoAway(&Event{Last: step.last})
		if got := lost(); !slices.Equal(got, step.want) || s.Usable() {
			t.Errorf("last %d: not processed %v, want %v; usable %v", step.last, got, step.want, s.Usable())
		}
	}
	server := NewStreams(Server, 9)
	if a, b, c := server.Leave(MaxID), server.Leave(7), server.Leave(9); a != MaxID || b != 7 || c != 7 {
		t.Errorf("left with %d, %d, %d", a, b, c)
	}
}

// The peer's SETTINGS (RFC 9113 6.5.2), and what they do to windows (6.9.2).
func TestRFC9113Settings(t *testing.T) {
	for _, tt := range []struct {
		name string
		role Role // ours
		set  []Setting
		want string
	}{
		{"6.5.2 ENABLE_PUSH 0", Server, []Setting{{SettingEnablePush, 0}}, "fine"},
		{"6.5.2 ENABLE_PUSH 1 from a client", Server, []Setting{{SettingEnablePush, 1}}, "fine"},
		{"6.5.2 ENABLE_PUSH 1 from a server", Client, []Setting{{SettingEnablePush, 1}}, "connection: PROTOCOL_ERROR"},
		{"6.5.2 ENABLE_PUSH 2", Server, []Setting{{SettingEnablePush, 2}}, "connection: PROTOCOL_ERROR"},
		{"6.5.2 INITIAL_WINDOW_SIZE at its limit", Server, []Setting{{SettingInitialWindow, maxWindow}}, "fine"},
		{"6.5.2 INITIAL_WINDOW_SIZE above it", Server, []Setting{{SettingInitialWindow, maxWindow + 1}}, "connection: FLOW_CONTROL_ERROR"},
		{"6.5.2 MAX_FRAME_SIZE at its limits", Server, []Setting{{SettingMaxFrameSize, 1 << 14}, {SettingMaxFrameSize, 1<<24 - 1}}, "fine"},
		{"6.5.2 MAX_FRAME_SIZE below", Server, []Setting{{SettingMaxFrameSize, 1<<14 - 1}}, "connection: PROTOCOL_ERROR"},
		{"6.5.2 MAX_FRAME_SIZE above", Server, []Setting{{SettingMaxFrameSize, 1 << 24}}, "connection: PROTOCOL_ERROR"},
		{"6.5.2 unknown ones are ignored", Server, []Setting{{0xffff, 5}, {0x10, 1 << 31}}, "fine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := DefaultSettings()
			before := set
			_, err := set.Apply(AppendSettings(nil, tt.set...)[HeadBytes:], tt.role)
			if got := fault(err); got != tt.want || err != nil && set != before {
				t.Errorf("%s, want %s; settings %+v", got, tt.want, set)
			}
		})
	}
	t.Run("6.5.3 the last of a parameter counts", func(t *testing.T) {
		set := DefaultSettings()
		size, err := set.Apply(AppendSettings(nil, Setting{SettingInitialWindow, 5}, Setting{SettingMaxStreams, 7},
			Setting{SettingInitialWindow, 6}, Setting{SettingMaxHeaderList, 8}, Setting{SettingMaxFrameSize, 20000}, Setting{SettingHeaderTableSize, 0})[HeadBytes:], Server)
		if want := (Settings{Streams: 7, Window: 6, Frame: 20000, HeaderList: 8}); err != nil || set != want || !size {
			t.Errorf("%+v, %v, %v", set, size, err)
		}
		var again Settings
		if err := again.Thaw(set.Freeze(nil)); err != nil || again != set {
			t.Errorf("thawed %+v, %v", again, err)
		}
		if size, err = set.Apply(nil, Server); err != nil || size {
			t.Errorf("empty SETTINGS name a table's size: %v, %v", size, err)
		}
	})
	t.Run("6.9.2 windows follow, below 0 too", func(t *testing.T) {
		w := Window(1000)
		if !w.Take(900) || !w.Shift(10-1000) || w != -890 || w.Left() != 0 || w.Take(1) || !w.Take(0) {
			t.Errorf("window %d", w)
		}
		if !w.Add(891) || w.Left() != 1 || !w.Take(1) {
			t.Errorf("window %d", w)
		}
	})
	t.Run("6.9.2 a window above 2^31-1", func(t *testing.T) {
		w := Window(maxWindow - 10)
		if !w.Shift(10) || w.Shift(1) || w != maxWindow {
			t.Errorf("window %d", w)
		}
	})
}

func TestInflow(t *testing.T) {
	f := NewInflow(100)
	if !f.Take(60) || f.Take(41) || !f.Take(40) || !f.Take(0) {
		t.Fatalf("%+v", f)
	}
	f.Owe(20)
	if n := f.Grant(21); n != 0 {
		t.Errorf("granted %d below the threshold", n)
	}
	f.Owe(30)
	if n := f.Grant(21); n != 50 || f.Window != 50 || f.Owed != 0 || f.Grant(0) != 0 {
		t.Errorf("granted %d, %+v", n, f)
	}
	if n := f.Widen(1000); n != 1000 || f.Window != 1050 {
		t.Errorf("widened by %d, %+v", n, f)
	}
	f.Owe(50)
	if n := f.Widen(maxWindow); n != maxWindow-1050-50 || f.Grant(0) != 50 || f.Window != maxWindow {
		t.Errorf("widened by %d, %+v", n, f)
	}
}

// A flood ends the connection; what an honest peer does, for ever, does not.
func TestFlood(t *testing.T) {
	for n := range nuisances {
		var f Flood
		now := time.Duration(1e9)
		burst, perSecond := n.rate()
		for i := range burst {
			if err := f.Count(n, now); err != nil {
				t.Fatalf("%v: %d of %d: %v", n, i, burst, err)
			}
		}
		if got := fault(f.Count(n, now)); got != "connection: ENHANCE_YOUR_CALM" {
			t.Errorf("%v: one more: %s", n, got)
		}
		for i := range 10 * perSecond {
			now += time.Second / time.Duration(perSecond)
			if err := f.Count(n, now); err != nil {
				t.Fatalf("%v: %d a second, number %d: %v", n, perSecond, i, err)
			}
		}
		for i := range 5 * perSecond {
			now += time.Second / time.Duration(2*perSecond)
			if err := f.Count(n, now); err != nil {
				break
			} else if i == 5*perSecond-1 {
				t.Errorf("%v: twice as many a second for ever", n)
			}
		}
		var fresh Flood
		if err := fresh.Count(n, 0); err != nil {
			t.Errorf("%v at the clock's beginning: %v", n, err)
		}
	}
}
