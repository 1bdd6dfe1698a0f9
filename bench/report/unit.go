package report

// A Unit is a figure that a scenario yields.
type Unit struct {
	Name   string // as in Go benchmark text
	Title  string // of a table's column
	Higher bool   // higher is better
	Steady bool   // processor time and counts: they hold on a shared machine, where rates do not
	Lead   bool   // in tables; the rest only where the raw samples are shown
	Scale  float64
	Digits int
}

// The units. Time is in seconds and size in bytes; tables scale them.
const (
	BytesPerSec     = "B/s"
	ExchangesPerSec = "exchanges/s"
	ConnsPerSec     = "conns/s"
	CPUPerGB        = "cpu-sec/GB"
	CPUPerKExchange = "cpu-sec/kexchange"
	CPUPerKConn     = "cpu-sec/kconn"
	UserPerGB       = "user-sec/GB"
	UserPerKExch    = "user-sec/kexchange"
	UserPerKConn    = "user-sec/kconn"
	P50             = "p50-sec"
	P90             = "p90-sec"
	P99             = "p99-sec"
	P999            = "p999-sec"
	Max             = "max-sec"
	RSS             = "rss-B"
	RSSPerConn      = "rss-B/conn"
	FDsPerConn      = "fds/conn"
	FDs             = "fds"
	Switches        = "switches/s"
	CallsPerMiB     = "calls/MiB"
	CallsPerExch    = "calls/exchange"
	CallsPerConn    = "calls/conn"
	GCs             = "gcs"
	MallocsPerOp    = "mallocs/op"
	Failures        = "errors"
)

// Units lists all of them in the order of a table's columns.
func Units() []Unit {
	return []Unit{
		{Name: BytesPerSec, Title: "Gb/s", Higher: true, Lead: true, Scale: 8e-9, Digits: 2},
		{Name: ExchangesPerSec, Title: "exch/s", Higher: true, Lead: true, Scale: 1},
		{Name: ConnsPerSec, Title: "conn/s", Higher: true, Lead: true, Scale: 1},
		{Name: CPUPerGB, Title: "CPU-s/GB", Steady: true, Lead: true, Scale: 1, Digits: 4},
		{Name: CPUPerKExchange, Title: "CPU-ms/1k exch", Steady: true, Lead: true, Scale: 1e3, Digits: 2},
		{Name: CPUPerKConn, Title: "CPU-ms/1k conn", Steady: true, Lead: true, Scale: 1e3, Digits: 2},
		{Name: UserPerGB, Title: "user-s/GB", Steady: true, Scale: 1, Digits: 4},
		{Name: UserPerKExch, Title: "user-ms/1k exch", Steady: true, Scale: 1e3, Digits: 2},
		{Name: UserPerKConn, Title: "user-ms/1k conn", Steady: true, Scale: 1e3, Digits: 2},
		{Name: P50, Title: "p50 µs", Lead: true, Scale: 1e6, Digits: 1},
		{Name: P90, Title: "p90 µs", Scale: 1e6, Digits: 1},
		{Name: P99, Title: "p99 µs", Lead: true, Scale: 1e6, Digits: 1},
		{Name: P999, Title: "p99.9 µs", Lead: true, Scale: 1e6, Digits: 1},
		{Name: Max, Title: "max µs", Scale: 1e6, Digits: 1},
		{Name: RSSPerConn, Title: "RSS B/conn", Steady: true, Lead: true, Scale: 1},
		{Name: FDsPerConn, Title: "fds/conn", Steady: true, Lead: true, Scale: 1, Digits: 3},
		{Name: CallsPerMiB, Title: "calls/MiB", Steady: true, Lead: true, Scale: 1, Digits: 2},
		{Name: CallsPerExch, Title: "calls/exch", Steady: true, Lead: true, Scale: 1, Digits: 2},
		{Name: CallsPerConn, Title: "calls/conn", Steady: true, Lead: true, Scale: 1, Digits: 2},
		{Name: RSS, Title: "RSS MiB", Lead: true, Scale: 1.0 / (1 << 20), Digits: 1},
		{Name: FDs, Title: "fds", Scale: 1},
		{Name: Switches, Title: "switches/s", Scale: 1},
		{Name: GCs, Title: "GCs", Scale: 1},
		{Name: MallocsPerOp, Title: "mallocs/op", Scale: 1, Digits: 3},
		{Name: Failures, Title: "errors", Lead: true, Scale: 1},
	}
}
