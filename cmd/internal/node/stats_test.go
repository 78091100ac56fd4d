package node

import (
	"testing"

	"github.com/millrace-data/millrace/s3backend"
)

func TestStoreStats_SumsStores(t *testing.T) {
	if got := storeStats(nil); len(got) != 0 {
		t.Errorf("no S3 service: got %v, want nothing", got)
	}
	one := s3backend.Stats{Requests: 7, Retries: 2, Hedges: 1, Limit: 16, Errors: map[string]int64{"throttled": 2, "not found": 1}}
	two := s3backend.Stats{Requests: 5, Limit: 8, BreakerOpen: true, Errors: map[string]int64{"throttled": 3}}
	got := map[string]float64{}
	for _, s := range storeStats([]s3backend.Stats{one, two}) {
		got[s.Name] = s.Value
	}
	for name, want := range map[string]float64{
		"store_requests_total": 12, "store_retries_total": 2, "store_hedges_total": 1, "store_request_limit": 24, "store_breakers_open": 1,
		"store_errors_throttled_total": 5, "store_errors_not_found_total": 1, "store_errors_denied_total": 0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s: got %v, %v, want %v", name, value, ok, want)
		}
	}
}
