package gateway_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
)

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

// TestShortGeneration_OfMixtures reads mixtures by the generation in a state. For a mixture in a URL
// it is a digest of the sources' generations, current or not.
func TestShortGeneration_OfMixtures(t *testing.T) {
	g := newGenerations(t, func(cfg *gateway.Config) {
		cfg.Mix = mix
		cfg.Mixtures = []gateway.Mixture{{Name: "both", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}}}}}
	})
	const written = "mix:photos(subset=samples:0-9):1,photos(subset=samples:10-30):1"
	whole := map[string]answer{}
	for _, name := range []string{"both", written, "mix:photos:1"} {
		whole[name] = g.do("GET", "/v1/datasets/"+name+"/epochs/1/batches/1")
	}
	named := g.do("GET", "/v1/datasets/both/epochs/1/batches/1?generation="+whole["both"].Header.Get("Millrace-Generation")[:32])
	if named.Header.Get("ETag") != whole["both"].Header.Get("ETag") {
		t.Errorf("both: got status %d and another ETag", named.StatusCode)
	}
	if err := g.gateway.Serve([]gateway.Dataset{g.newer}, nil); err != nil {
		t.Fatal(err)
	}
	old, fresh := g.older.Index.Generation(), g.newer.Index.Generation()
	g.do("GET", "/epoch/0/batch/0?generation="+old) // open it
	short := func(list string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(list)))[:32] }
	for name, generation := range map[string]string{written: short(old + "," + old), "mix:photos:1": old[:32]} {
		a := g.do("GET", "/v1/datasets/"+name+"/epochs/1/batches/1?generation="+generation)
		for _, h := range []string{"ETag", "Content-Location", "Millrace-Generation"} {
			if got, want := a.Header.Get(h), whole[name].Header.Get(h); got != want || got == "" {
				t.Errorf("%s: got status %d and %s %s, want %s", name, a.StatusCode, h, got, want)
			}
		}
		if !bytes.Equal(a.body, whole[name].body) || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: got another body, or %s", name, a.Header.Get("Cache-Control"))
		}
	}
	for _, list := range []string{fresh + "," + old, old + "," + fresh, fresh + "," + fresh} {
		a := g.do("GET", "/v1/datasets/"+written+"/epochs/1/batches/1?generation="+short(list))
		if got := a.Header.Get("Millrace-Generation"); got != list {
			t.Errorf("got status %d and generations %s, want %s", a.StatusCode, got, list)
		}
	}
	checkProblem(t, g.do("GET", "/v1/datasets/"+written+"/epochs/1/batches/1?generation="+short(old)), http.StatusNotFound, "generation_gone", false)
	for _, wrong := range []string{old[:31], old[:33], strings.ToUpper(old[:32])} {
		checkProblem(t, g.do("GET", "/epoch/0/batch/0?generation="+wrong), http.StatusBadRequest, "invalid_argument", false)
	}
}
