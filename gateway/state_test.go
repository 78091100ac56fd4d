package gateway_test

import "testing"

// planDigests returns the plan digests of an epoch, and its order digest.
func (r *rig) planDigests(dataset, query string) (plan, order string) {
	r.t.Helper()
	var e struct {
		Order string `json:"order_digest"`
		Plans []struct {
			Position uint64
			Digest   string
		} `json:"plan_digests"`
	}
	r.json("/v1/datasets/"+dataset+"/epochs/2?"+query, &e)
	if len(e.Plans) != 1 || e.Plans[0].Position != 0 {
		r.t.Fatalf("%s: got plan digests %+v, want one, of position 0", dataset, e.Plans)
	}
	return e.Plans[0].Digest, e.Order
}

// TestPlanDigest_ExcludesQuarantine compares the plan digests of datasets, subsets and mixtures
// with and without a quarantine.
func TestPlanDigest_ExcludesQuarantine(t *testing.T) {
	r, _ := mixedRig(t)
	for _, c := range []struct{ plain, bad, query, quarantine string }{
		{"photos", "photos", "", "quarantine=samples:3,20"},
		{"photos", "photos", "subset=train=3,val=1:train", "&quarantine=samples:3,20"},
		{"mix:photos:3,scans:1", "mix:photos:3,scans(quarantine=samples:3,20):1", "", ""},
	} {
		plan, order := r.planDigests(c.plain, c.query)
		same, other := r.planDigests(c.bad, c.query+c.quarantine)
		if plan != order || same != plan || other == order {
			t.Errorf("%s: got plan %s and order %s, with the quarantine of %s plan %s and order %s", c.plain, plan, order, c.bad, same, other)
		}
	}
	one, _ := r.planDigests("photos", "seed=1")
	if two, _ := r.planDigests("photos", "seed=2"); one == two {
		t.Errorf("got plan %s for two seeds", one)
	}
}
