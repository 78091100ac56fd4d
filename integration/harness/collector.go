package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Collector is an OpenTelemetry Collector. It writes the received spans to a file, which survives
// restarts of the collector.
type Collector struct {
	*Process
	HTTP, GRPC string // URLs for OTEL_EXPORTER_OTLP_ENDPOINT

	config, file string
}

// OpenCollector starts a collector.
func OpenCollector(t testing.TB) *Collector {
	t.Helper()
	dir, free := t.TempDir(), FreeAddresses(t, 2)
	c := &Collector{
		HTTP: "http://" + free[0], GRPC: "http://" + free[1],
		config: filepath.Join(dir, "config.yaml"), file: filepath.Join(dir, "spans.json"),
	}
	text := fmt.Sprintf(`
receivers: {otlp: {protocols: {http: {endpoint: %q}, grpc: {endpoint: %q}}}}
exporters: {file: {path: %q, append: true, flush_interval: 50ms}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [file]}}
`, free[0], free[1], c.file)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Start(t)
	return c
}

// Start restarts the collector after it was killed, at the same addresses.
func (c *Collector) Start(t testing.TB) {
	t.Helper()
	c.Process = Start(t, "collector", Installed(t, "collector"), baseEnv(t), "--config", c.config)
	c.Ready(t, func(ctx context.Context) error { return c.take(ctx, "{}") })
}

// take sends spans to the collector, like a gateway.
func (c *Collector) take(ctx context.Context, spans string) error {
	r, err := send(ctx, http.DefaultClient, http.MethodPost, c.HTTP+"/v1/traces", []byte(spans))
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", r.Status, r.Body)
	}
	return err
}

// Span is one span that a collector received. IDs are in hex.
type Span struct {
	Service, Name     string
	Trace, ID, Parent string // Parent "": the span is the first of its trace
	Start, End        time.Time
	Said              map[string]string // the attributes
	Links             []string          // IDs of linked spans
	Failed            bool
	Why               string
}

// Took returns the duration of a span.
func (s Span) Took() time.Duration { return s.End.Sub(s.Start) }

// Settled returns all spans that the collector has received so far. It sends its own span last:
// once that span is in the file, all earlier ones are too.
func (c *Collector) Settled(t testing.TB) []Span {
	t.Helper()
	const text = `{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "%016x", "name": "last",
		"startTimeUnixNano": "1", "endTimeUnixNano": "2"}]}]}]}`
	number := time.Now().UnixNano()
	if err := c.take(t.Context(), fmt.Sprintf(text, number)); err != nil {
		t.Fatal(err)
	}
	var before []Span
	c.Ready(t, func(context.Context) error {
		before = before[:0]
		for _, s := range c.Spans(t) {
			if s.ID == fmt.Sprintf("%016x", number) {
				return nil
			}
			if s.Name != "last" {
				before = append(before, s)
			}
		}
		return errors.New("the last span is not there yet")
	})
	return before
}

// sent is a line of the collector's file: OTLP in JSON.
type sent struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attribute }
		ScopeSpans []struct {
			Spans []struct {
				TraceID           string
				SpanID            string
				ParentSpanID      string
				Name              string
				StartTimeUnixNano string
				EndTimeUnixNano   string
				Attributes        []attribute
				Links             []struct{ SpanID string }
				Status            struct {
					Code    int
					Message string
				}
			}
		}
	}
}

type attribute struct {
	Key   string
	Value struct{ StringValue, IntValue string }
}

func said(all []attribute) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		out[a.Key] = a.Value.StringValue + a.Value.IntValue
	}
	return out
}

// Spans returns the spans that are in the file now.
func (c *Collector) Spans(t testing.TB) (out []Span) {
	t.Helper()
	text, err := os.ReadFile(c.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var l sent
		if json.Unmarshal(line, &l) == nil { // an incomplete line is being written, or was left by a killed collector
			out = append(out, l.spans(t)...)
		}
	}
	return out
}

func (l sent) spans(t testing.TB) (out []Span) {
	t.Helper()
	const failed = 2 // STATUS_CODE_ERROR
	for _, of := range l.ResourceSpans {
		service := said(of.Resource.Attributes)["service.name"]
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				x := Span{
					Service: service, Name: s.Name, Trace: s.TraceID, ID: s.SpanID, Parent: s.ParentSpanID, Said: said(s.Attributes),
					Start: moment(t, s.StartTimeUnixNano), End: moment(t, s.EndTimeUnixNano), Failed: s.Status.Code == failed, Why: s.Status.Message,
				}
				for _, other := range s.Links {
					x.Links = append(x.Links, other.SpanID)
				}
				out = append(out, x)
			}
		}
	}
	return out
}

func moment(t testing.TB, nanoseconds string) time.Time {
	t.Helper()
	n, err := strconv.ParseInt(nanoseconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, n)
}
