package main

import (
	"strings"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/s3backend"
)

// storeStats sums up what the S3 stores of all datasets count; directories count nothing.
func storeStats(stores []objstore.Store) []gateway.Stat {
	var sum s3backend.Stats
	errs := map[string]int64{}
	limit, open, found := 0, 0, false
	for _, store := range stores {
		counts, ok := store.(interface{ Stats() s3backend.Stats })
		if !ok {
			continue
		}
		found = true
		t := counts.Stats()
		sum.Requests += t.Requests
		sum.Retries += t.Retries
		sum.Hedges += t.Hedges
		limit += t.Limit
		if t.BreakerOpen {
			open++
		}
		for kind, n := range t.Errors {
			errs[kind] += n
		}
	}
	if !found {
		return nil
	}
	out := []gateway.Stat{
		{Name: "store_requests_total", Help: "Requests to S3 services, repeated ones included.", Value: float64(sum.Requests)},
		{Name: "store_retries_total", Help: "Requests sent because an earlier one failed.", Value: float64(sum.Retries)},
		{Name: "store_hedges_total", Help: "Requests sent because an earlier one was late.", Value: float64(sum.Hedges)},
		{Name: "store_request_limit", Help: "Requests to S3 services that may be under way now.", Value: float64(limit)},
		{Name: "store_breakers_open", Help: "Datasets whose S3 service gets nothing but probes now.", Value: float64(open)},
	}
	for _, err := range objstore.Vocabulary() {
		kind := err.Error()
		out = append(out, gateway.Stat{
			Name: "store_errors_" + strings.ReplaceAll(kind, " ", "_") + "_total",
			Help: "Failed requests to S3 services: " + kind + ".", Value: float64(errs[kind]),
		})
	}
	return out
}
