package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

const schedulesPath = "/v1/datasets/photos/schedules"

// schedule stores a schedule and returns its digest.
func (r *rig) schedule(status int, rows string) string {
	r.t.Helper()
	a := r.post(schedulesPath, `{"schedule":`+rows+`}`)
	var kept struct{ Schedule string }
	if err := json.Unmarshal(a.body, &kept); err != nil || a.StatusCode != status {
		r.t.Fatalf("got status %d, want %d: %s", a.StatusCode, status, a.body)
	}
	return kept.Schedule
}

// segmentDigests returns the list of plan digests of an epoch.
func (r *rig) segmentDigests(path string) (out []shuffle.DigestAt) {
	r.t.Helper()
	var e struct {
		PlanDigests []shuffle.DigestAt `json:"plan_digests"`
	}
	r.json(path, &e)
	return e.PlanDigests
}

// TestSchedule_Delivers reads a mixture with a stored schedule and one with the same declared
// schedule, over several epochs, and compares both with the order.
func TestSchedule_Delivers(t *testing.T) {
	segments := []shuffle.Segment{{First: 32, Weights: []uint64{0, 1}}, {First: 96 + 64, Weights: []uint64{1, 1}}}
	declared := address.Mixture{Samples: 96, Sources: []address.Source{{Dataset: "photos", Share: 3}, {Dataset: "scans", Share: 1}}, Segments: segments}
	r, _ := mixedRig(t, gateway.Mixture{Name: "m", Mixture: declared})
	digest := r.schedule(http.StatusCreated, "[[32,0,1],[160,1,1]]")
	if again := r.schedule(http.StatusOK, "[[32,0,1],[160,1,1]]"); again != digest {
		t.Errorf("got %s and %s for equal weights", digest, again)
	}
	newer := r.schedule(http.StatusCreated, "[[32,1,1]]")
	var all struct{ Schedules []string }
	if r.json(schedulesPath, &all); !slices.Equal(all.Schedules, []string{newer, digest}) {
		t.Errorf("got the schedules %v, want %v", all.Schedules, []string{newer, digest})
	}
	m, err := shuffle.NewMixture(7, 96, []shuffle.Ingredient{{Samples: 50, Weight: 3}, {Samples: 50, Weight: 1}}, segments...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m", "mix:photos:3,scans:1,samples=96,schedule=" + digest} {
		for epoch := range uint64(3) {
			want := r.mixedSamples(m, shuffle.Params{Shuffle: shuffle.Slot, Window: 4}, epoch)
			for i := range 6 {
				var list struct {
					Samples []struct{ Source, Key string }
				}
				r.json(fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d/manifest?batch_size=16", name, epoch, i), &list)
				for k, s := range list.Samples {
					if w := want[16*i+k]; s.Source != w[0] || s.Key != w[1] && w[1] != r.order[oddSample] {
						t.Fatalf("%s epoch %d position %d: got %+v, want %v", name, epoch, 16*i+k, s, w)
					}
				}
			}
		}
		var plans []string
		for i := range 2 {
			p, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: m.SourceSeed(i)}, r.index.First())
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, p.OrderDigest())
		}
		var e struct{ Schedule [][]uint64 }
		if r.json("/v1/datasets/"+name+"/epochs/1?batch_size=16", &e); fmt.Sprint(e.Schedule) != "[[32 0 1] [160 1 1]]" {
			t.Errorf("%s: got the schedule %v", name, e.Schedule)
		}
		got := r.segmentDigests("/v1/datasets/" + name + "/epochs/1?batch_size=16")
		want := []shuffle.DigestAt{{Position: 0, Digest: m.Until(0, 32).OrderDigest(plans)}, {Position: 32, Digest: m.Until(1, 64).OrderDigest(plans)}, {Position: 160, Digest: m.OrderDigest(plans)}}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestSchedule_FutureCanChange compares two schedules and a mixture without one, which agree up to a
// position: their batches and plan digests agree up to there.
func TestSchedule_FutureCanChange(t *testing.T) {
	r, _ := mixedRig(t)
	plain := "mix:photos:3,scans:1,samples=96"
	first := plain + ",schedule=" + r.schedule(http.StatusCreated, "[[32,0,1],[64,1,1]]")
	second := "mix:photos:6,scans:2,photos(subset=samples:0-9):0,samples=96,schedule=" + r.schedule(http.StatusCreated, "[[32,0,1,0],[48,1,0,4]]")
	body := func(name string, i int) string {
		return string(r.do("GET", fmt.Sprintf("/v1/datasets/%s/epochs/0/batches/%d?batch_size=16", name, i)).body)
	}
	for _, c := range []struct {
		other string
		agree int
	}{{plain, 2}, {second, 3}} {
		for i := range 6 {
			if same := body(first, i) == body(c.other, i); same != (i < c.agree) {
				t.Errorf("batch %d of %s: equal is %v", i, c.other, same)
			}
		}
		own, other := r.segmentDigests("/v1/datasets/"+first+"/epochs/0?batch_size=16"), r.segmentDigests("/v1/datasets/"+c.other+"/epochs/0?batch_size=16")
		if n := c.agree - 1; !slices.Equal(own[:n], other[:n]) || len(other) > n && own[n] == other[n] {
			t.Errorf("%s: got digests %v and %v, want %d to agree", c.other, own, other, n)
		}
	}
	var d struct{ Dataset string }
	if r.json("/v1/datasets/"+second+"/epochs/0?batch_size=16", &d); !strings.Contains(d.Dataset, "photos:3,scans:1,photos(subset=samples:0-9):0") {
		t.Errorf("got %s, want reduced weights", d.Dataset)
	}
}

func TestSchedule_Refusals(t *testing.T) {
	r, _ := mixedRig(t)
	digest := r.schedule(http.StatusCreated, "[[32,0,1]]")
	none := strings.Repeat("ab", 32)
	for name, want := range map[string]string{
		"mix:photos:3,scans:1,schedule=" + digest:                                        "a schedule requires samples=N",
		"mix:photos:3,scans:1,samples=96,schedule=" + digest[1:]:                         "must be the digest of one stored schedule",
		"mix:photos:12,scans:4,samples=96,per-batch,schedule=" + digest:                  "a schedule requires weights",
		"mix:photos:3,scans:1,scans(subset=samples:0-3):1,samples=96,schedule=" + digest: "segment 1 must be a position and 3 weights",
		"mix:photos:0,scans:0,samples=96,schedule=" + digest:                             "segment 0: has no positive weight",
		"mix:photos:3,scans:0,samples=96":                                                "whole number from 1",
		"mix:photos:3,scans:1,samples=96,schedule=" + digest + ",schedule=" + digest:     "must be the digest of one stored schedule",
	} {
		a := r.do("GET", "/v1/datasets/"+name+"/epochs/0?batch_size=16")
		if a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: got status %d: %s, want %q", name, a.StatusCode, a.body, want)
		}
	}
	mixture := "/v1/datasets/mix:photos:3,scans:1,samples=96,schedule="
	if a := r.do("GET", mixture+none+"/epochs/0"); a.StatusCode != http.StatusNotFound || !strings.Contains(string(a.body), "has no schedule abababababab") {
		t.Errorf("got status %d: %s", a.StatusCode, a.body)
	}
	if a := r.do("GET", mixture+digest+"/epochs/0?batch_size=12"); a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), "batch_size: segment 1 of the schedule begins at position 32 of epoch 0: all must begin at multiples of bucket * batch_size, 12") {
		t.Errorf("got status %d: %s", a.StatusCode, a.body)
	}
	many := "[[1,1]" + strings.Repeat(",[1,1]", 255) + "]"
	for body, want := range map[string]string{
		`{"schedule":[]}`:                          "non-empty list",
		`{"schedule":[[5]]}`:                       "non-empty list",
		`{"schedule":[[-1,1]]}`:                    "schedule: a JSON number -1 is not possible here",
		`{"schedule":[[5,1],[6,1,1]]}`:             "segment 2 must be a position and 1 weights",
		`{"schedule":[[5,1,0],[5,1,1]]}`:           "segment 2: begins at position 5: must be after 5",
		`{"schedule":[[0,1,0]]}`:                   "segment 1: begins at position 0: must be after 0",
		`{"schedule":[[5,0,0]]}`:                   "segment 1: has no positive weight",
		`{"schedule":[[5,1,9223372036854775808]]}`: "weights sum to 2^63",
		`{"schedule":[[5,1]],"samples":3}`:         "unexpected form",
		`{"schedule":` + many + `}`:                "schedule of 257 segments: must be at most 256",
	} {
		if a := r.post(schedulesPath, body); a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), want) {
			t.Errorf("%.60s: got status %d: %s, want %q", body, a.StatusCode, a.body, want)
		}
	}
	checkProblem(t, r.post("/v1/datasets/mix:photos:1/schedules", `{"schedule":[[5,1]]}`), http.StatusBadRequest, "invalid_argument", false)
}
