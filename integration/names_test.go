package integration_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/cluster/discovery"
	"github.com/millrace-data/millrace/integration/harness"
)

// zone is a real name server on a loopback port, with its records.
type zone struct {
	mu      sync.Mutex          // guards the fields below
	records map[string][]string // by name; each in the form "TYPE DATA" of a zone file
	code    int                 // response code of every query, unless 0
	cut     int                 // number of truncated responses over UDP
}

func (z *zone) set(code int, records map[string][]string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.code, z.records = code, records
}

// ServeDNS implements dns.Handler.
func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = true
	name, known := q.Question[0].Name, false
	for at, texts := range z.records {
		known = known || at == name
		for _, text := range texts {
			if rr, err := dns.NewRR(at + " 0 IN " + text); at == name && err == nil && rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
	}
	switch {
	case z.code != 0:
		m.Rcode, m.Answer = z.code, nil
	case !known:
		m.Rcode = dns.RcodeNameError
	}
	if w.LocalAddr().Network() == "udp" {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		if m.Truncate(size); m.Truncated {
			z.cut++
		}
	}
	_ = w.WriteMsg(m)
}

// resolver starts the name server, and returns a resolver that queries only this server.
func (z *zone) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	address := harness.FreeAddress(t)
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{{PacketConn: udp, Handler: z}, {Listener: tcp, Handler: z}} {
		var up, down sync.WaitGroup
		up.Add(1)
		s.NotifyStartedFunc = up.Done
		down.Go(func() { _ = s.ActivateAndServe() })
		up.Wait()
		t.Cleanup(func() {
			_ = s.Shutdown()
			down.Wait()
		})
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// finder collects the results of a running lookup.
type finder struct {
	mu    sync.Mutex // guards the fields below
	found []string
	log   strings.Builder
}

// Write implements io.Writer, for the log.
func (f *finder) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(b)
}

// failures returns how often the log reports a failed lookup.
func (f *finder) failures() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Count(f.log.String(), "using the last addresses")
}

func (f *finder) finds(want []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Equal(f.found, want)
}

// find looks up gateways as --join does, until the test ends.
func find(t *testing.T, join string, resolver *net.Resolver) *finder {
	t.Helper()
	where, err := discovery.ParseJoin(join)
	if err != nil {
		t.Fatal(err)
	}
	f := &finder{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		names := discovery.New(where, zerolog.New(f))
		names.Resolver = resolver
		_ = names.Run(ctx, func(all []string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.found = all
		})
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

// TestNamesOfARealServer finds gateways by the A and SRV records of a real name server, and finds
// new records within seconds. When a name is removed or a server fails, the known gateways stay.
func TestNamesOfARealServer(t *testing.T) {
	t.Parallel()
	z := &zone{}
	z.set(0, map[string][]string{
		"gateways.example.":            {"A 10.0.0.1", "A 10.0.0.2", "AAAA fd00::1"},
		"_peer._tcp.gateways.example.": {"SRV 0 0 7946 a.example.", "SRV 0 0 7956 b.example."},
		"a.example.":                   {"A 10.0.0.1", "AAAA fd00::1"},
		"b.example.":                   {"A 10.0.0.2"},
	})
	resolver := z.resolver(t)
	byA, bySRV := find(t, "gateways.example.:7946", resolver), find(t, "srv:_peer._tcp.gateways.example.", resolver)
	check := func(what string, failures int, a, srv []string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if byA.failures() >= failures && bySRV.failures() >= failures && byA.finds(a) && bySRV.finds(srv) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: got %q and %q after %d and %d failures, want %q and %q after %d",
					what, byA.found, bySRV.found, byA.failures(), bySRV.failures(), a, srv, failures)
			}
		}
	}
	check("two gateways", 0, []string{"10.0.0.1:7946", "10.0.0.2:7946", "[fd00::1]:7946"}, []string{"10.0.0.1:7946", "10.0.0.2:7956", "[fd00::1]:7946"})

	z.set(0, map[string][]string{
		"gateways.example.":            {"A 10.0.0.2", "A 10.0.0.3"},
		"_peer._tcp.gateways.example.": {"SRV 0 0 7956 b.example.", "SRV 0 0 7966 c.example."},
		"b.example.":                   {"A 10.0.0.2"},
		"c.example.":                   {"A 10.0.0.3"},
	})
	a, srv := []string{"10.0.0.2:7946", "10.0.0.3:7946"}, []string{"10.0.0.2:7956", "10.0.0.3:7966"}
	check("one has gone, another has come", 0, a, srv)
	z.set(0, map[string][]string{"b.example.": {"A 10.0.0.2"}, "c.example.": {"A 10.0.0.3"}})
	check("there is no such name", 1, a, srv)

	many := map[string][]string{"gateways.example.": {"A 10.0.0.9"}}
	var all []string
	for i := range 40 {
		host := fmt.Sprintf("gateway-%d.some-long-name.job-a.svc.cluster.example.", i)
		many[host] = []string{fmt.Sprintf("A 10.0.1.%d", i)}
		many["_peer._tcp.gateways.example."] = append(many["_peer._tcp.gateways.example."], fmt.Sprintf("SRV 0 0 %d %s", 9000+i, host))
		all = append(all, fmt.Sprintf("10.0.1.%d:%d", i, 9000+i))
	}
	slices.Sort(all)
	z.set(0, many)
	check("more than a datagram holds", 1, []string{"10.0.0.9:7946"}, all)
	z.set(dns.RcodeServerFailure, nil)
	check("the server is out of order", 2, []string{"10.0.0.9:7946"}, all)
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.cut == 0 {
		t.Error("got no answer that was cut off, want one that was asked for again over TCP")
	}
}
