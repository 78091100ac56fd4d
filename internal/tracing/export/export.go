// Package export sends spans to an OpenTelemetry collector. It is configured only by the standard
// variables of OpenTelemetry, and does nothing without them.
package export

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"github.com/millrace-data/millrace/internal/tracing"
)

// endTime is the time limit for sending the remaining spans when the program exits.
const endTime = 5 * time.Second

// Exporter sends spans. The zero value sends none.
type Exporter struct{ provider *trace.TracerProvider }

// settings are the values from the environment.
type settings struct {
	wanted   bool
	protocol string
	sampler  trace.Sampler
}

// Check returns an error that names an invalid environment variable, or nil.
func Check() error {
	_, err := read()
	return err
}

// Open reads the environment variables, and starts sending if they name a collector. Errors name
// the variable.
func Open(ctx context.Context, version string, log zerolog.Logger) (Exporter, error) {
	s, err := read()
	if err != nil || !s.wanted {
		return Exporter{}, err
	}
	of, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "millrace"), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return Exporter{}, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	client := otlptracehttp.NewClient()
	if s.protocol == "grpc" {
		client = otlptracegrpc.NewClient()
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return Exporter{}, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(warnSeldom(log)))
	return Exporter{trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithSampler(linkSampler{s.sampler}), trace.WithResource(of))}, nil
}

// Tracer returns the tracer whose spans are sent.
func (e Exporter) Tracer() tracing.Tracer {
	if e.provider == nil {
		return tracing.Tracer{}
	}
	return tracing.New(e.provider)
}

// Close sends the remaining spans, for endTime at most.
func (e Exporter) Close() error {
	if e.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return e.provider.Shutdown(ctx)
}

// warnSeldom returns a function that logs errors of the collector at most once a minute. A
// collector may be down for hours, with an error for each batch of spans.
func warnSeldom(log zerolog.Logger) func(error) {
	due := rate.Sometimes{First: 1, Interval: time.Minute}
	return func(err error) {
		due.Do(func() { log.Warn().Err(err).Msg("traces are not sent") })
	}
}

// read reads the environment.
func read() (s settings, err error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return s, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return s, nil
	case "otlp":
		s.wanted = true
	case "":
		_, s.wanted = first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	default:
		return s, fmt.Errorf("OTEL_TRACES_EXPORTER: %q: must be otlp or none", exporter)
	}
	if !s.wanted {
		return s, nil
	}
	name, _ := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	switch s.protocol = os.Getenv(name); s.protocol {
	case "", "http/protobuf", "grpc":
	default:
		return s, fmt.Errorf("%s: %q: must be http/protobuf or grpc", name, s.protocol)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if u, err := url.Parse(os.Getenv(name)); err != nil || u.String() != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return s, fmt.Errorf("%s: must be http://host:port or https://host:port", name)
		}
	}
	s.sampler, err = samplerOf(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	return s, err
}

// first returns the first variable that is set.
func first(names ...string) (name string, ok bool) {
	for _, name := range names {
		if os.Getenv(name) != "" {
			return name, true
		}
	}
	return "", false
}
