package gateway_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// place is a delivery of a sample, with the rank that reads it.
type place struct{ Epoch, Batch, Position, Rank uint64 }

// delivered returns the deliveries of an epoch's samples by key, from the manifests of all ranks.
func (r *rig) delivered(epoch uint64, query string, ranks uint64) map[string][]place {
	r.t.Helper()
	var plan struct{ Batches uint64 }
	r.json(fmt.Sprintf("/v1/datasets/photos/epochs/%d?%s&world_size=%d", epoch, query, ranks), &plan)
	out := map[string][]place{}
	for batch := range plan.Batches {
		at := map[uint64]string{} // key by position
		whose := map[uint64]uint64{}
		for rank := range ranks {
			var m manifestJSON
			r.json(fmt.Sprintf("/v1/datasets/photos/epochs/%d/batches/%d/manifest?%s&rank=%d&world_size=%d", epoch, batch, query, rank, ranks), &m)
			for _, s := range m.Samples {
				if len(s.KeyBytes) > 0 {
					s.Key = string(s.KeyBytes)
				}
				at[s.Position], whose[s.Position] = s.Key, rank
			}
		}
		for position := uint64(0); position < 1000; position++ {
			if key, ok := at[position]; ok {
				out[key] = append(out[key], place{epoch, batch, position, whose[position]})
			}
		}
	}
	return out
}

// TestOccurrencesNameTheRank compares the ranks of occurrences with the samples sent to each rank.
func TestOccurrencesNameTheRank(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	r.split("train=3,val=1", "")
	for _, query := range []string{
		"batch_size=7", "batch_size=7&tail=pad", "batch_size=16&balance=bytes", "batch_size=16&balance=bytes&tail=pad", "batch_size=8&subset=train&balance=bytes",
		"batch_size=16&shuffle=slot&window=8&share=locality", "batch_size=16&shuffle=slot&window=8&share=locality&homes=2&tail=pad",
		"batch_size=16&shuffle=window&window=8&strata=4&share=locality&homes=3",
	} {
		want := r.delivered(3, query, 3)
		ranks := map[uint64]bool{}
		for _, key := range r.order {
			var found struct{ Occurrences []place }
			r.json(fmt.Sprintf("/v1/datasets/photos/occurrences?key=%s&epochs=3&world_size=3&%s", url.QueryEscape(key), query), &found)
			if len(found.Occurrences) == 0 {
				found.Occurrences = nil
			}
			if diff := gocmp.Diff(want[key], found.Occurrences); diff != "" {
				t.Fatalf("%s: occurrences of %q differ from what the ranks are sent:\n%s", query, key, diff)
			}
			for _, o := range found.Occurrences {
				ranks[o.Rank] = true
			}
		}
		if len(ranks) != 3 {
			t.Errorf("%s: got samples of ranks %v, want all three", query, ranks)
		}
	}
	const one = "/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=3&"
	checkProblem(t, r.do("GET", one+"world_size=3&rank=1"), http.StatusBadRequest, "invalid_argument", false)
	checkProblem(t, r.do("GET", one+"world_size=9&shuffle=slot&window=4&share=locality"), http.StatusBadRequest, "invalid_argument", false)
	checkProblem(t, r.do("GET", one+"world_size=9&shuffle=full&share=locality"), http.StatusBadRequest, "invalid_argument", false)
}
