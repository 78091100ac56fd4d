package peer

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// unbounded is a maximum age that no connection of a test reaches.
const unbounded = 1000 * time.Hour

// lives records how long each connection of a client is open.
type lives struct {
	mu      sync.Mutex // guards the fields below
	count   int
	longest time.Duration
}

type trackedConn struct {
	net.Conn
	since time.Time
	in    *lives
}

func (l *trackedConn) Close() error {
	l.in.mu.Lock()
	l.in.longest = max(l.in.longest, time.Since(l.since))
	l.in.mu.Unlock()
	return l.Conn.Close()
}

// renewals runs f in a bubble with two members, each with its own certificate. Their connections
// have the given maximum ages. f gets the record of connections, and a function that reads from the
// answering member.
func renewals(t *testing.T, asks, answers time.Duration, asker, answerer *certs.Peer, f func(t *testing.T, all *lives, read func() error)) {
	t.Helper()
	ln, all, s := newPipes(), &lives{}, newShelf(2, 100)
	s.uncounted = true
	s.answer = func(context.Context, *Query) error { // long enough for a sign of life
		time.Sleep(3 * firstSign)
		return nil
	}
	cfg := serverOf(s)
	cfg.TLS, cfg.MostAge = answerer.Server(), answers
	serve(t, ln, cfg)
	client := ClientConfig{Cluster: testCluster, ID: "a", SharedCert: true, TLS: asker.Client()}
	client.Transport = &renewingTransport{age: asks, fresh: func() *http.Transport {
		transport := newTransport(NewClient(client).cfg)
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := ln.dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			all.mu.Lock()
			all.count++
			all.mu.Unlock()
			return &trackedConn{c, time.Now(), all}, nil
		}
		return transport
	}}
	c := NewClient(client)
	defer c.Close()
	f(t, all, func() error {
		q, dst, want := s.question(1, 50)
		err := c.Read(t.Context(), "b:1", q, dst)
		if err == nil {
			same(t, dst, want)
		}
		return err
	})
}

// TestConnectionsAreRenewed: either side alone limits the age of connections, and no question fails
// because of it. Four askers ask throughout the test.
func TestConnectionsAreRenewed(t *testing.T) {
	for name, ages := range map[string][2]time.Duration{
		"by the asker": {time.Minute, unbounded}, "by the answerer": {unbounded, time.Minute}, "by both": {time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ours := certtest.New(t)
				one := files(t, issue(t, ours, nil))
				renewals(t, ages[0], ages[1], one, one, func(t *testing.T, all *lives, read func() error) {
					var askers sync.WaitGroup
					for i := range 4 {
						askers.Go(func() {
							for range 1000 {
								if err := read(); err != nil {
									t.Errorf("got %v, want an answer", err)
								}
								time.Sleep(time.Duration(500+i) * time.Millisecond)
							}
						})
					}
					askers.Wait()
					// The answering side ends a connection with its next
					// answer, so the connection may be idle for a while beyond
					// its maximum age.
					all.mu.Lock() // a connection that ends late still records it
					defer all.mu.Unlock()
					if most := time.Minute + clientIdle; all.longest > most || all.count < 8 || all.count > 4*2*13 {
						t.Errorf("got %d connections in 530 s, the longest for %v, want new ones every 45 to 60 s and none for %v", all.count, all.longest, most)
					}
				})
			})
		})
	}
}

// TestExpiredCertificatesStopWorking: an expired certificate works for at most the maximum age of a
// connection. This holds for certificates of either side, and if only one side checks. A
// certificate that is replaced in time costs no question.
func TestExpiredCertificatesStopWorking(t *testing.T) {
	const good, age = 90 * time.Minute, time.Hour
	for _, c := range []struct {
		name          string
		asks, answers time.Duration
		asker         bool // the asker's certificate expires, not the answerer's
		replaced      bool
	}{
		{name: "the asker's, the answerer looks", asks: unbounded, answers: age, asker: true},
		{name: "the answerer's, the asker looks", asks: age, answers: unbounded},
		{name: "the asker's, both look", asks: age, answers: age, asker: true},
		{name: "replaced in time", asks: age, answers: age, asker: true, replaced: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ours, dir := certtest.New(t), t.TempDir()
				lasting := files(t, issue(t, ours, nil))
				short := files(t, ours.Issue(t, dir, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(good) }))
				asker, answerer := lasting, short
				if c.asker {
					asker, answerer = short, lasting
				}
				renewals(t, c.asks, c.answers, asker, answerer, func(t *testing.T, _ *lives, read func() error) {
					begun := time.Now()
					var last time.Duration // when the last answer arrived
					for time.Since(begun) < good+3*age {
						if c.replaced && time.Since(begun) > good/2 {
							ours.Issue(t, dir, nil)
							c.replaced = false
						}
						err := read()
						if err == nil {
							last = time.Since(begun)
						} else if !errors.Is(err, ErrDown) {
							t.Fatalf("got %v, want %v", err, ErrDown)
						}
						time.Sleep(30 * time.Second)
					}
					least, most := good-time.Minute, good+age+time.Minute
					if c.name == "replaced in time" {
						least, most = good+3*age-time.Minute, good+3*age
					}
					if last < least || last > most {
						t.Errorf("got the last answer after %v, want it from %v to %v", last, least, most)
					}
				})
			})
		})
	}
}
