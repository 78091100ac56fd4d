package gateway_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
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
		"batch_size=4&bucket=3", "batch_size=4&bucket=3&balance=bytes&tail=pad&quarantine=samples:3,8-11", "batch_size=7&bucket=2&shuffle=slot&window=8&share=locality&homes=2",
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

// TestOccurrences_OfMixture compares the occurrences of samples of mixtures, with a schedule and in
// fixed counts, with the manifests of all batches. A source occurs twice, once in part.
func TestOccurrences_OfMixture(t *testing.T) {
	r, _ := mixedRig(t)
	digest := r.schedule(http.StatusCreated, "[[32,1,1,0],[160,1,0,3]]")
	for _, name := range []string{
		"mix:photos:3,photos(subset=samples:0-9&quarantine=samples:3):1,scans:0,samples=96,schedule=" + digest, "mix:photos:3,photos(subset=samples:0-9):5,per-batch,samples=81",
	} {
		for _, how := range []string{"", "&tail=drop", "&tail=pad", "&bucket=2"} {
			query := "batch_size=16" + how
			if strings.Contains(name, "per-batch") {
				query = "batch_size=8" + how
			}
			want := map[string][]place{}
			for epoch := uint64(1); epoch < 4; epoch++ {
				path := fmt.Sprintf("/v1/datasets/%s/epochs/%d", name, epoch)
				var plan struct{ Batches uint64 }
				r.json(path+"?"+query, &plan)
				for batch := range plan.Batches {
					for rank := range uint64(2) {
						var m struct {
							Samples []struct {
								Source, Key string
								Position    uint64
								KeyBytes    []byte `json:"key_base64"`
							}
						}
						r.json(fmt.Sprintf("%s/batches/%d/manifest?%s&world_size=2&rank=%d&balance=bytes", path, batch, query, rank), &m)
						for _, s := range m.Samples {
							if s.Source == "photos" {
								key := s.Key
								if len(s.KeyBytes) > 0 {
									key = string(s.KeyBytes)
								}
								want[key] = append(want[key], place{epoch, batch, s.Position, rank})
							}
						}
					}
				}
			}
			for _, key := range r.order {
				var found struct{ Occurrences []place }
				r.json("/v1/datasets/"+name+"/occurrences?epochs=1-3&world_size=2&balance=bytes&key="+url.QueryEscape(key)+"&"+query, &found)
				slices.SortFunc(want[key], func(a, b place) int {
					return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Position, b.Position))
				})
				if !slices.Equal(found.Occurrences, want[key]) {
					t.Fatalf("%s?%s: occurrences of %q: got %v, want %v", name, query, key, found.Occurrences, want[key])
				}
			}
		}
	}
	checkProblem(t, r.do("GET", "/v1/datasets/mix:photos:1,photos(subset=samples:0-3):1,samples=10000/occurrences?epochs=0-3&key=d0%2Fs00001"), http.StatusBadRequest, "invalid_argument", false)
}
