package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// tracedBy returns the store with an environment that makes its gateways export spans.
func tracedBy(store *harness.Store, endpoint string, more ...string) *harness.Store {
	return store.With(append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=50"}, more...)...)
}

// parentOf returns a traceparent, and the IDs in it.
func parentOf(n int) (header, trace, span string) {
	trace, span = fmt.Sprintf("%032x", 0x7ace<<32|n), fmt.Sprintf("%016x", n+1)
	return "00-" + trace + "-" + span + "-01", trace, span
}

// aFew is the delay of a slow store.
const aFew = 100 * time.Millisecond

// slowStore delays reads of shards. While failing is set, it refuses the next read without delay: a
// late refusal might meet the second request, which the gateway sends because the first one is
// late.
func slowStore(failing *atomic.Bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/.millrace/") {
			return
		}
		if failing.CompareAndSwap(true, false) {
			answered(r)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `<Error><Code>SlowDown</Code></Error>`)
			return
		}
		late := time.NewTimer(aFew)
		defer late.Stop()
		select {
		case <-late.C:
		case <-r.Context().Done():
		}
	}
}

// traceOf waits until a collector has the root span of a caller's trace, which ends last. It
// returns the root and all other spans.
func traceOf(t *testing.T, c *harness.Collector, parent string) (root harness.Span, all []harness.Span) {
	t.Helper()
	c.Ready(t, func(context.Context) error {
		all = c.Spans(t)
		for _, s := range all {
			if s.Parent == parent {
				root = s
				return nil
			}
		}
		return errors.New("the request's span is not there")
	})
	return root, all
}

func below(all []harness.Span, above harness.Span, name string) (out []harness.Span) {
	for _, s := range all {
		if s.Trace == above.Trace && s.Parent == above.ID && (name == "" || s.Name == name) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b harness.Span) int { return a.Start.Compare(b.Start) })
	return out
}

// behindOf returns the spans of a given name that a span waited for. These are below the span
// itself, or below the work in other traces that one of them links to. The first span of such a
// trace links back to the request that started the work.
func behindOf(all []harness.Span, above harness.Span, name string) (out []harness.Span) {
	for _, s := range all {
		if s.Trace == above.Trace && s.Parent == above.ID || above.Parent != "" && slices.Contains(above.Links, s.ID) {
			if s.Name == name {
				out = append(out, s)
			}
			out = append(out, behindOf(all, s, name)...)
		}
	}
	return out
}

// checkNested requires that all descendants of a span lie within its time.
func checkNested(t *testing.T, all []harness.Span, above harness.Span) {
	t.Helper()
	for _, s := range below(all, above, "") {
		if s.Start.Before(above.Start.Add(-time.Millisecond)) || s.End.After(above.End.Add(time.Millisecond)) {
			t.Errorf("%s from %v to %v is outside of %s, from %v to %v", s.Name, s.Start, s.End, above.Name, above.Start, above.End)
		}
		checkNested(t, all, s)
	}
}

// TestTracesReachACollector sends slow requests to a gateway whose store is late and fails once. A
// real collector receives spans that explain where the time was spent.
func TestTracesReachACollector(t *testing.T) {
	store := packed(t, "versitygw")
	for protocol, endpoint := range map[string]func(*harness.Collector) string{
		"http/protobuf": func(c *harness.Collector) string { return c.HTTP },
		"grpc":          func(c *harness.Collector) string { return c.GRPC },
	} {
		t.Run(protocol, func(t *testing.T) {
			c := harness.OpenCollector(t)
			var fault atomic.Pointer[http.HandlerFunc]
			g := serve(t, tracedBy(behind(t, store, &fault), endpoint(c), "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol), "--no-prefetch")
			path := func(m int) string { return batchPath(0, m) + "?shuffle=none&batch_size=2" }
			g.MustGet(t, path(0)) // do the work that only a first request causes
			var failing atomic.Bool
			slow := slowStore(&failing)
			fault.Store(&slow)
			least := time.Hour // smallest difference between the time of a request and the sum of its phases
			for n := range 5 {
				failing.Store(true)
				header, trace, parent := parentOf(n)
				r := g.MustGet(t, path(20*(n+1)), "Traceparent", header)
				root, all := traceOf(t, c, parent)
				if root.Trace != trace || root.Service != "millrace" || root.Name != "GET /v1/datasets/{dataset}/epochs/{epoch}/batches/{batch}" {
					t.Errorf("got %+v, want the request in trace %s", root, trace)
				}
				if got, want := root.Said["http.response.body.size"], fmt.Sprint(len(r.Body)); got != want || root.Said["millrace.dataset"] != dataset {
					t.Errorf("got %v, want %s bytes of %s", root.Said, want, dataset)
				}
				checkNested(t, all, root)
				var phases time.Duration
				for _, s := range below(all, root, "") {
					phases += s.Took()
				}
				least = min(least, (root.Took() - phases).Abs())
				checkStoreRead(t, all, root)
			}
			if least > time.Millisecond {
				t.Errorf("phases and request differ by %v or more, want at most 1 ms", least)
			}
		})
	}
}

// checkStoreRead looks for the cause of a slow request: the first of two attempts at the store
// failed.
func checkStoreRead(t *testing.T, all []harness.Span, root harness.Span) {
	t.Helper()
	reads := below(all, root, "read")
	if len(reads) != 1 || reads[0].Took() < aFew {
		t.Fatalf("got reads %+v, want one of %v or more", reads, aFew)
	}
	store := behindOf(all, reads[0], "store read")
	if len(store) != 1 || store[0].Failed {
		t.Fatalf("got reads of the store %+v, want one that has not failed", store)
	}
	attempts := below(all, store[0], "store attempt")
	if len(attempts) != 2 || !attempts[0].Failed || attempts[1].Failed {
		t.Fatalf("got attempts %+v, want one that failed and one that did not", attempts)
	}
	if !strings.Contains(attempts[0].Why, "SlowDown") || attempts[0].Said["millrace.store.attempt"] != "0" || attempts[1].Said["millrace.store.attempt"] != "1" {
		t.Errorf("got attempts %+v, want the store's own word for the first", attempts)
	}
	if attempts[1].Took() < aFew || attempts[1].Start.Before(attempts[0].End) {
		t.Errorf("got attempts %+v, want the second to take %v, after the first", attempts, aFew)
	}
}

// TestTracesOfSharedLoads lets two requests wait for the same chunks. Each links to the one load
// that read these.
func TestTracesOfSharedLoads(t *testing.T) {
	c := harness.OpenCollector(t)
	var fault atomic.Pointer[http.HandlerFunc]
	g := serve(t, tracedBy(behind(t, packed(t, "versitygw"), &fault), c.HTTP), "--no-prefetch")
	g.MustGet(t, batchPath(0, 0)+"?shuffle=none&batch_size=2")
	slow := slowStore(&atomic.Bool{})
	fault.Store(&slow)
	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() {
			header, _, _ := parentOf(n)
			if r, err := g.Try(t.Context(), batchPath(0, 100)+"?shuffle=none&batch_size=2", "Traceparent", header); err != nil || r.Status != http.StatusOK {
				t.Errorf("got status %d and %v", r.Status, err)
			}
		})
	}
	both.Wait()
	loads := map[string]int{}
	for n := range 2 {
		_, _, parent := parentOf(n)
		root, all := traceOf(t, c, parent)
		for _, wait := range behindOf(all, root, "wait for chunks") {
			for _, load := range wait.Links {
				loads[load]++
			}
			if wait.Took() < aFew/2 {
				t.Errorf("request %d waited for %v, want about %v", n, wait.Took(), aFew)
			}
		}
		if reads := behindOf(all, root, "store read"); len(reads) != 1 || reads[0].Trace == root.Trace {
			t.Errorf("request %d: got reads of the store %+v, want one in a trace of its own", n, reads)
		}
	}
	if len(loads) != 1 || slices.Max(slices.Collect(maps.Values(loads))) != 2 {
		t.Errorf("got loads %v, want one that both requests are linked to", loads)
	}
}

// TestTracesOfFullMemory requests a batch while others occupy the memory. Its trace shows the wait
// for memory.
func TestTracesOfFullMemory(t *testing.T) {
	c := harness.OpenCollector(t)
	g := harness.Serve(t, tracedBy(heavy(t), c.HTTP), dataset, "--cache-size", "32MiB")
	ctx, end := context.WithCancel(t.Context())
	var all, begun sync.WaitGroup
	begun.Add(6)
	for r := range 6 {
		all.Go(func() {
			slowly(ctx, t, g, fmt.Sprintf("/epoch/%d/batch/%d?batch_size=36&shuffle=full", r, r), 100<<10, begun.Done)
		})
	}
	begun.Wait()
	header, _, parent := parentOf(0)
	r := g.Get(t, "/epoch/9/batch/9?batch_size=36&shuffle=full", "Traceparent", header)
	end()
	all.Wait()
	root, spans := traceOf(t, c, parent)
	waits := behindOf(spans, root, "wait for memory")
	if len(waits) == 0 || waits[0].Took() < time.Second || waits[0].Failed != (r.Status == http.StatusServiceUnavailable) {
		t.Errorf("got status %d and waits %+v, want one for memory", r.Status, waits)
	}
}

// TestTracesOfPeers reads chunks from a gateway that does not own them. The trace of the request
// contains the peer request, its response, and the waits of the owning gateway.
func TestTracesOfPeers(t *testing.T) {
	c, store := harness.OpenCollector(t), packed(t, "dir")
	f := harness.NewFleet(t, harness.FleetConfig{
		Store: store, Env: tracedBy(store, c.HTTP).Env, Dataset: dataset, Size: 2, Args: []string{"--cache-size", "64MiB", "--no-prefetch"},
	})
	f.StartAll(t)
	f.Agree(t)
	header, trace, parent := parentOf(0)
	f.Members[0].MustGet(t, batchPath(0, 0)+share(64, 0, 1), "Traceparent", header)
	root, all := traceOf(t, c, parent)
	questions := behindOf(all, root, "peer question")
	if len(questions) == 0 || questions[0].Trace != trace || questions[0].Said["millrace.peer.member"] != f.Members[1].Name {
		t.Fatalf("got questions %+v, want one to %s in the request's trace", questions, f.Members[1].Name)
	}
	c.Ready(t, func(context.Context) error { // they arrive from another process
		all = c.Spans(t)
		answers := below(all, questions[0], "peer answer")
		if len(answers) != 1 || answers[0].Start.Before(questions[0].Start) || len(behindOf(all, answers[0], "chunk load")) == 0 {
			return fmt.Errorf("got answers %+v, want one, and what it waited for", answers)
		}
		return nil
	})
}

// TestACollectorThatComesAndGoes checks that requests are unaffected when the collector is killed
// and restarted, and that later spans arrive.
func TestACollectorThatComesAndGoes(t *testing.T) {
	store, c := packed(t, "dir"), harness.OpenCollector(t)
	g := serve(t, tracedBy(store, c.HTTP), "--lame-duck", "1ms")
	number := 0
	read := func() {
		t.Helper()
		for m := range 10 {
			header, _, _ := parentOf(number)
			number++
			g.MustGet(t, batchPath(0, m)+share(16, 0, 1), "Traceparent", header)
		}
	}
	read()
	_, _, first := parentOf(0)
	traceOf(t, c, first)
	c.Kill()
	g.Ready(t, func(context.Context) error { // until the gateway has noticed
		read()
		return g.Logs("traces are not sent")(t.Context())
	})
	c.Start(t)
	before := number
	c.Ready(t, func(context.Context) error {
		read()
		_, _, oldest := parentOf(before)
		for _, s := range c.Spans(t) {
			if s.Parent >= oldest {
				return nil
			}
		}
		return errors.New("the collector is back, and gets nothing")
	})
	c.Kill()
	read()
	if err := g.Stop(); err != nil {
		t.Errorf("stop a gateway whose collector is gone: %v", err)
	}
}

// TestWhoIsNotToBeTraced checks that a gateway traces no request if the sampler says so, or only
// requests whose callers ask for a trace.
func TestWhoIsNotToBeTraced(t *testing.T) {
	store, c := packed(t, "dir"), harness.OpenCollector(t)
	for sampler, want := range map[string]int{"traceidratio": 0, "parentbased_traceidratio": 1} {
		t.Run(sampler, func(t *testing.T) {
			before := len(c.Settled(t))
			g := serve(t, tracedBy(store, c.HTTP, "OTEL_TRACES_SAMPLER="+sampler, "OTEL_TRACES_SAMPLER_ARG=0"), "--lame-duck", "1ms")
			header, trace, _ := parentOf(1)
			g.MustGet(t, batchPath(0, 0)+share(16, 0, 1), "Traceparent", header)
			for m := range 5 {
				g.MustGet(t, batchPath(0, m)+share(16, 0, 1))
			}
			if err := g.Stop(); err != nil { // it exports the remaining spans
				t.Error(err)
			}
			traces := map[string]bool{}
			for _, s := range c.Settled(t)[before:] {
				if len(s.Links) == 0 { // except work that a traced request has started
					traces[s.Trace] = true
				}
			}
			if len(traces) != want || want == 1 && !traces[trace] {
				t.Errorf("got traces %v, want %d", traces, want)
			}
		})
	}
}
