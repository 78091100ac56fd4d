package export

import (
	"fmt"
	"strconv"

	"go.opentelemetry.io/otel/sdk/trace"
)

// samplerOf parses OTEL_TRACES_SAMPLER and its argument as the specification requires. The
// library's own parser is not exported, and uses the default for unknown values.
func samplerOf(name, argument string) (trace.Sampler, error) {
	ratio := 1.0
	if argument != "" {
		var err error
		if ratio, err = strconv.ParseFloat(argument, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q: must be a number from 0 to 1", argument)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return trace.ParentBased(trace.AlwaysSample()), nil
	case "always_on":
		return trace.AlwaysSample(), nil
	case "always_off":
		return trace.NeverSample(), nil
	case "traceidratio":
		return trace.TraceIDRatioBased(ratio), nil
	case "parentbased_always_off":
		return trace.ParentBased(trace.NeverSample()), nil
	case "parentbased_traceidratio":
		return trace.ParentBased(trace.TraceIDRatioBased(ratio)), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER: %q: must be always_on, always_off, traceidratio, or one of these with the prefix parentbased_", name)
}

// linkSampler also samples spans that link to a sampled span, although they begin a new trace
// (tracing.Apart).
type linkSampler struct{ trace.Sampler }

// ShouldSample decides whether a span is sampled.
func (s linkSampler) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return trace.SamplingResult{Decision: trace.RecordAndSample}
		}
	}
	return s.Sampler.ShouldSample(p)
}
