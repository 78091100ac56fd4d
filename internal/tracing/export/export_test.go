package export_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/internal/tracing/export"
)

// sink is a collector that records the names of spans.
type sink struct {
	mu    sync.Mutex
	names []string // "service/span"
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	text, _ := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &sent); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range sent.ResourceSpans {
		service := ""
		for _, a := range of.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				s.names = append(s.names, service+"/"+span.Name)
			}
		}
	}
}

func (s *sink) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.names, " ")
}

// work makes the spans of a request, of a part of it, and of separate work that it starts.
func work(t tracing.Tracer, parent string) {
	ctx, request := t.Request(context.Background(), http.Header{"Traceparent": {parent}}, "request")
	_, part := tracing.Start(ctx, "part")
	part.End()
	_, apart := tracing.Apart(ctx, "apart")
	apart.End()
	request.End()
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"

// TestOpen_FollowsTheEnvironment: the standard variables decide whether spans are sent, under which
// service name, and which spans are sampled.
func TestOpen_FollowsTheEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		env    map[string]string // HERE is replaced by the collector's address
		parent string
		want   string
	}{
		"nothing":              {nil, "", ""},
		"an endpoint":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE"}, "", "millrace/part millrace/apart millrace/request"},
		"one for traces":       {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "HERE/v1/traces"}, "", "millrace/part millrace/apart millrace/request"},
		"switched off":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE", "OTEL_SDK_DISABLED": "true"}, "", ""},
		"no exporter":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		"a name":               {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE", "OTEL_SERVICE_NAME": "data"}, "", "data/part data/apart data/request"},
		"never":                {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE", "OTEL_TRACES_SAMPLER": "always_off"}, "", ""},
		"none in a hundred":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, "", ""},
		"but what callers ask": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE", "OTEL_TRACES_SAMPLER": "parentbased_always_off"}, parent + "1", "millrace/part millrace/apart millrace/request"},
		"and what they do not": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE"}, parent + "0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var s sink
			server := httptest.NewServer(&s)
			defer server.Close()
			for key, value := range tc.env {
				t.Setenv(key, strings.ReplaceAll(value, "HERE", server.URL))
			}
			e, err := export.Open(t.Context(), "1", zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			work(e.Tracer(), tc.parent)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if got := s.got(); got != tc.want {
				t.Errorf("got spans %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCheck_NamesTheVariable: Check refuses values that the library would silently replace by its
// default, and names the variable.
func TestCheck_NamesTheVariable(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "jaeger", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "x",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4318", "OTEL_TRACES_SAMPLER": "sometimes", "OTEL_TRACES_SAMPLER_ARG": "1.5",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
			t.Setenv(name, value)
			if err := export.Check(); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("got %v, want a fault of %s", err, name)
			}
			if _, err := export.Open(t.Context(), "1", zerolog.Nop()); err == nil {
				t.Error("Open gave no error")
			}
		})
	}
}

// TestOpen_LogsUnreachableCollectorOnce: an unreachable collector causes one line in the log, not
// one for each batch of spans.
func TestOpen_LogsUnreachableCollectorOnce(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	var log bytes.Buffer
	e, err := export.Open(t.Context(), "1", zerolog.New(zerolog.SyncWriter(&log)))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		work(e.Tracer(), "")
	}
	_ = e.Close() // returns or logs that the last spans are lost
	if got := strings.Count(log.String(), "traces are not sent"); got > 1 {
		t.Errorf("got %d lines, want one at most: %s", got, &log)
	}
}
