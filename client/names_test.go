package client_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestNameServerThatHangsHoldsNobodyUp: while a name server hangs, the client reads batches from
// the known gateways. If all of them fail, it retries them during the lookup.
func TestNameServerThatHangsHoldsNobodyUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		answer := time.Duration(0)
		lookup := func(ctx context.Context, _ string) ([]string, error) {
			select {
			case <-time.After(answer):
				return []string{"10.0.0.1", "10.0.0.2"}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		answer = 6 * time.Second // like a resolver whose first of two name servers is down
		c := newClient(t, client.Config{Gateways: []string{"dns:gw:80"}, Lookup: lookup, HTTP: &http.Client{Transport: f}})
		readSome(t, c, client.Options{}, 1)
		answer = time.Hour
		var most time.Duration
		for range 120 {
			pause(time.Second)
			start := time.Now()
			readSome(t, c, client.Options{}, 1)
			most = max(most, time.Since(start))
		}
		if most > 600*time.Millisecond {
			t.Errorf("got %v on the fake clock for a batch, want 600 ms at most", most)
		}
		f.set("10.0.0.1:80", 0, true)
		f.set("10.0.0.2:80", 0, true)
		time.AfterFunc(2*time.Second, func() { f.set("10.0.0.2:80", 0, false) })
		start := time.Now()
		readSome(t, c, client.Options{}, 1)
		if got := time.Since(start); got > 9*time.Second {
			t.Errorf("got %v on the fake clock until the gateway that came back was asked, want 9 s at most", got)
		}
	})
}

func TestOneNameWithoutAnswerHidesNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		lookup := func(ctx context.Context, host string) ([]string, error) {
			if host == "lost" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []string{"10.0.0.1", "10.0.0.2"}, nil
		}
		for _, first := range []string{"dns:lost:80", "http://lost:80"} {
			c := newClient(t, client.Config{
				Gateways: []string{first, "dns:gw:80"}, Lookup: lookup, Deadline: 10 * time.Second, HTTP: &http.Client{Transport: f},
			})
			readSome(t, c, client.Options{}, 1)
		}
	})
}

// TestCancelledCallSaysNothingOfAGateway: a cancelled probe does not count against a gateway, so
// the client uses a recovered gateway again.
func TestCancelledCallSaysNothingOfAGateway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(map[string]time.Duration{})
		c := newClient(t, client.Config{Gateways: []string{"a", "b"}, Home: inOrder, HTTP: &http.Client{Transport: f}})
		f.set("a", 0, true)
		readSome(t, c, client.Options{}, 1)
		pause(2 * time.Second)
		f.set("a", 100*time.Millisecond, false)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, _ = c.Batch(ctx, client.Options{}, 0) // b may have responded
		f.asked()
		pause(time.Second)
		readSome(t, c, client.Options{}, 1)
		if got, want := f.asked(), "map[a:1]"; got != want {
			t.Errorf("got batches %s, want %s", got, want)
		}
	})
}
