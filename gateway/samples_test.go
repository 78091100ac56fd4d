package gateway_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
)

// listed formats positions for at=.
func listed(at []uint64) string {
	text := make([]string, len(at))
	for i, n := range at {
		text[i] = fmt.Sprint(n)
	}
	return strings.Join(text, ",")
}

// checkPositions draws positions of an epoch with the given keys, and compares the responses with
// the samples.
func (r *rig) checkPositions(dataset string, epoch int, query string, keys []string) {
	r.t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(len(keys))))
	for _, count := range []int{1, 7, 2 * len(keys)} {
		at := make([]uint64, count)
		for i := range at {
			at[i] = rng.Uint64N(uint64(len(keys)))
		}
		path := fmt.Sprintf("/v1/datasets/%s/epochs/%d/samples", dataset, epoch)
		asked := "?" + strings.TrimPrefix(query+"&at="+listed(at), "&")
		samples := r.entries(path + "/manifest" + asked)
		var want []byte
		for i, s := range samples {
			if s.Position != at[i] || s.Key != keys[at[i]] {
				r.t.Fatalf("%s%s: sample %d is %q at position %d, want %q at %d", path, asked, i, s.Key, s.Position, keys[at[i]], at[i])
			}
			want = append(want, r.samples[s.Key]...)
		}
		a := r.do("GET", path+asked)
		if !bytes.Equal(a.body, append(want, make([]byte, 1024)...)) || len(samples) != count {
			r.t.Fatalf("%s%s: got status %d and %d samples of %d, or a body that is not what the manifest says", path, asked, a.StatusCode, len(samples), count)
		}
		if got := a.Header.Get("Millrace-Samples"); got != fmt.Sprint(count) {
			r.t.Errorf("%s%s: got %s samples in the header, want %d", path, asked, got, count)
		}
		for _, name := range []string{"batch_size=", "rank=", "world_size=", "tail="} {
			if strings.Contains(a.Header.Get("Content-Location"), name) {
				r.t.Errorf("%s: got Content-Location %s with %s, which changes nothing", path, a.Header.Get("Content-Location"), name)
			}
		}
		again := r.do("GET", a.Header.Get("Content-Location"))
		if again.Header.Get("ETag") != a.Header.Get("ETag") || !bytes.Equal(again.body, a.body) {
			r.t.Errorf("%s: got status %d and another answer at its canonical address", a.Header.Get("Content-Location"), again.StatusCode)
		}
	}
}

// TestSamplesByPositionAreThoseOfTheBatches compares samples by position with the manifests of the
// epoch, for every kind of plan.
func TestSamplesByPositionAreThoseOfTheBatches(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	made := r.split("train=3,val=1", "")
	bad := r.quarantine(3, 11, 40)
	snapshot := r.snapshot()
	for _, query := range []string{
		"", "shuffle=none", "shuffle=full&seed=5", "shuffle=window&window=2", "shuffle=window&window=8&strata=4",
		"subset=" + made.Digest + ":train", "subset=val", "quarantine=" + bad + "&shuffle=full", "importance=" + snapshot.Snapshot,
		"subset=train&quarantine=" + bad,
	} {
		for _, epoch := range []int{0, 3} {
			r.checkPositions("photos", epoch, query, r.epochKeys(epoch, query))
		}
	}
	if got := r.source.hot.Load(); got == 0 {
		t.Error("no sample that is drawn often was marked so")
	}
}

func TestSamplesByPositionOfMixtures(t *testing.T) {
	r, _ := mixedRig(t,
		gateway.Mixture{Name: "weighed", Mixture: address.Mixture{Samples: 70, Sources: []address.Source{{Dataset: "photos", Share: 3}, {Dataset: "scans", Share: 1}}}},
		gateway.Mixture{Name: "fixed", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 5}, {Dataset: "scans", Share: 2}}, PerBatch: true}})
	for _, name := range []string{"weighed", "fixed"} {
		var plan struct{ Batches int }
		r.json("/v1/datasets/"+name+"/epochs/2", &plan)
		var keys []string
		for batch := range plan.Batches {
			keys = append(keys, r.manifest(fmt.Sprintf("/v1/datasets/%s/epochs/2/batches/%d/manifest", name, batch))...)
		}
		r.checkPositions(name, 2, "", keys)
	}
}

// TestSamplesByPositionHaveForms reads one list with two spellings, and a part of it.
func TestSamplesByPositionHaveForms(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	const path = "/v1/datasets/photos/epochs/1/samples"
	a := r.do("GET", path+"?at=4,2,4&format=framed&table=keys,parts&fields=cls")
	if got := a.Header.Get("Content-Type"); a.StatusCode != http.StatusOK || got != "application/vnd.millrace.framed" {
		t.Fatalf("got status %d and %s, want 200 and the framed form: %s", a.StatusCode, got, a.body)
	}
	if b := r.do("GET", path+"?at=4%2C2%2C4&format=framed&table=keys,parts&fields=cls"); !bytes.Equal(a.body, b.body) || a.Header.Get("ETag") != b.Header.Get("ETag") {
		t.Errorf("escaped commas: got status %d and another body", b.StatusCode)
	}
	if b := r.do("GET", path+"?at=4,2,4&format=framed&table=keys,parts&fields=cls", "Range: bytes=10-29"); !bytes.Equal(b.body, a.body[10:30]) {
		t.Errorf("got status %d and %d bytes of a part, want 20", b.StatusCode, len(b.body))
	}
	etags := map[string]bool{}
	for _, query := range []string{"at=4,2", "at=2,4", "at=4,2,4", "at=4,2&seed=8", "at=4,2&format=framed", "at=4"} {
		etags[r.do("HEAD", path+"?"+query).Header.Get("ETag")] = true
	}
	etags[r.do("HEAD", path+"/manifest?at=4,2").Header.Get("ETag")] = true
	etags[r.do("HEAD", "/v1/datasets/photos/epochs/0/samples?at=4,2").Header.Get("ETag")] = true
	if len(etags) != 8 {
		t.Errorf("got %d ETags of 8 bodies", len(etags))
	}
}

// TestSamplesByPositionRefuse: samples by position have strict parameters, refuse parameters
// without effect, and have the limits of a batch.
func TestSamplesByPositionRefuse(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	const path = "/v1/datasets/photos/epochs/0/samples"
	for _, query := range []string{
		"", "at=", "at=1,", "at=,1", "at=1,,2", "at=01", "at=-1", "at=+1", "at=1%2b", "at=x", "at=1&at=2", "at=18446744073709551616", "at=50", "at=0,50",
		"at=1&batch_size=2", "at=1&rank=0", "at=1&world_size=1", "at=1&tail=pad", "at=1&balance=bytes", "at=1&share=locality", "at=1&homes=1", "at=1&from=0",
		"at=" + listed(make([]uint64, address.MaxPositions+1)),
	} {
		for _, suffix := range []string{"?", "/manifest?"} {
			p := checkProblem(t, r.do("GET", path+suffix+query), http.StatusBadRequest, "invalid_argument", false)
			name, _, _ := strings.Cut(query[strings.LastIndex(query, "&")+1:], "=")
			if name == "" || strings.HasPrefix(query, "at=1&at") {
				name = "at"
			}
			if len(p.Faults) != 1 || p.Faults[0].Name != name {
				t.Errorf("%.40s: got faults %v, want one of %s", query, p.Faults, name)
			}
		}
	}
	if a := r.do("GET", path+"?at="+listed(make([]uint64, address.MaxPositions))); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d for the most positions, want 200: %s", a.StatusCode, a.body)
	}
	many := slices.Repeat([]uint64{49}, address.MaxPositions/2)
	if a := r.do("GET", path+"?generation="+r.index.Generation()+"&at="+listed(many)); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d, want 200: %s", a.StatusCode, a.body)
	}
}
