package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// TestWrittenSplitIsTheStoredOne reads each part of a split that only the address defines, from a
// gateway that stores no splits. It compares the part with the same part of a stored split.
func TestWrittenSplitIsTheStoredOne(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	m := r.split("train=3,val=1", "s7")
	for _, plan := range []string{"shuffle=none", "shuffle=window&window=4&strata=2", "shuffle=slot&window=4", "shuffle=full"} {
		for i, name := range []string{"train", "val"} {
			query := plan + "&batch_size=7&subset="
			stored, written := r.epochKeys(2, query+m.Digest+":"+name), r.epochKeys(2, query+"train=30,val=10:"+name+":s7")
			if !slices.Equal(stored, written) || uint64(len(written)) != m.Counts[i] {
				t.Errorf("%s, %s: got %v, want %v", plan, name, written, stored)
			}
			r.checkOccurrences(2, query+"train=3,val=1:"+name+":s7", written)
		}
	}
}

// TestWrittenSubsets reads subsets defined in several ways by the address, from a gateway that
// stores only the index.
func TestWrittenSubsets(t *testing.T) {
	r := newRig(t, 50, 800, func(c *gateway.Config) { c.Datasets[0].Selection = nil })
	train := r.epochKeys(0, "shuffle=none&subset=train=3,val=1:train")
	for subset, want := range map[string][]string{
		"samples:0-9":                              r.order[:10],
		"samples:3,40-49":                          append(slices.Clone(r.order[3:4]), r.order[40:]...),
		"train=3,val=1:train~samples:0-4":          train[:5],
		"samples:0-19~samples:5-9":                 r.order[5:10],
		"train=3,val=1:train~samples:2-1000000000": train[2:],
	} {
		if got := r.epochKeys(0, "shuffle=none&subset="+subset); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", subset, got, want)
		}
		got := r.epochKeys(3, "batch_size=4&subset="+url.QueryEscape(subset))
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf("%s, shuffled: got %v, want %v", subset, got, want)
		}
	}
	inner := r.epochKeys(0, "shuffle=none&subset=train=3,val=1:train~a=1,b=1:a:2")
	if len(inner) < len(train)/4 || len(inner) > 3*len(train)/4 {
		t.Errorf("got %d of %d samples in one half of train", len(inner), len(train))
	}
}

// TestWrittenQuarantine: samples listed in the address are replaced like those of a stored list.
func TestWrittenQuarantine(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	digest := r.quarantine(1, 2, 3, 20)
	for _, query := range []string{"shuffle=none&batch_size=7", "batch_size=7&subset=train=3,val=1:train"} {
		stored, written := r.epochKeys(1, query+"&quarantine="+digest), r.epochKeys(1, query+"&quarantine=samples:1,2,3,20")
		if !slices.Equal(stored, written) || slices.Equal(written, r.epochKeys(1, query)) {
			t.Errorf("%s: got %v, want %v", query, written, stored)
		}
		r.checkOccurrences(1, query+"&quarantine=samples:1-3,20", written)
	}
}

// TestWrittenSelectionsHaveOneAddress: different spellings of a selection have one canonical
// address, which pins all data.
func TestWrittenSelectionsHaveOneAddress(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	a := r.do("GET", "/epoch/0/batch/0?subset=train%3D30%2Cval%3D10%3Atrain~samples:0-20&quarantine=samples%3A1%2C2")
	canonical := a.Header.Get("Content-Location")
	if a.StatusCode != http.StatusOK || !strings.Contains(canonical, "&quarantine=samples:1-2&") || !strings.Contains(canonical, "&subset=train=3,val=1:train~samples:0-20&") {
		t.Fatalf("got %d and %s, want the shortest forms", a.StatusCode, canonical)
	}
	again := r.do("GET", canonical)
	if again.Header.Get("ETag") != a.Header.Get("ETag") || !bytes.Equal(again.body, a.body) || again.Header.Get("Content-Location") != canonical {
		t.Error("the canonical address gives another answer")
	}
	if got := again.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("got Cache-Control %s, want an answer that never changes", got)
	}
	reads := r.source.reads.Load()
	if got := r.do("GET", canonical, "If-None-Match: "+a.Header.Get("ETag")); got.StatusCode != http.StatusNotModified || r.source.reads.Load() != reads {
		t.Errorf("got %d and %d reads, want 304 and none", got.StatusCode, r.source.reads.Load()-reads)
	}
}

func TestWrittenSelectionsRefuse(t *testing.T) {
	r := newRig(t, 50, 800, func(c *gateway.Config) { c.Datasets[0].Selection = nil })
	none := strings.Repeat("ab", 32)
	for query, want := range map[string]int{
		"subset=train=.9,val=.1:train":                 400,
		"subset=train=9,val=1":                         400,
		"subset=train=9,val=1:test":                    400,
		"subset=samples:9-3":                           400,
		"subset=a=1,b=1:a~c=1,d=1:c":                   400, // the same hash again
		"subset=" + strings.Repeat("samples:1~", 30):   400,
		"subset=train":                                 404, // nothing is stored
		"subset=" + none + ":train~samples:0-9":        404,
		"quarantine=" + none:                           404,
		"quarantine=samples:50":                        400, // there are 50
		"quarantine=samples:0-49":                      400,
		"subset=samples:0-3&quarantine=samples:0-3":    400, // no healthy sample is left
		"importance=" + none + "&subset=samples:0-3":   400,
		"importance=" + none + "&quarantine=samples:1": 400,
	} {
		code := map[int]string{400: "invalid_argument", 404: "not_found"}[want]
		checkProblem(t, r.do("GET", "/epoch/0/batch/0?"+query), want, code, false)
	}
	for _, query := range []string{"subset=samples:60-70", "subset=a=1,b=4294967294:a"} { // a subset without samples
		checkProblem(t, r.do("GET", fmt.Sprintf("/epoch/0/batch/0?%s", query)), 404, "end_of_epoch", false)
	}
}

// TestWrittenSelectionsHoldLittle requests many subsets and mixtures. The memory that caches use
// for them stays within the limit of prepared epochs.
func TestWrittenSelectionsHoldLittle(t *testing.T) {
	memory := budget.New(20<<20, 20*time.Millisecond)
	r := newRig(t, 50, 800, func(c *gateway.Config) { c.Budget, c.PlanBytes, c.Mix = memory, 32<<10, mix })
	before := memory.InUse()
	for i := range 100 {
		for _, path := range []string{"photos/epochs/0?subset=samples:%d", "mix:photos(subset=samples:%d):1/epochs/0?"} {
			if a := r.do("GET", "/v1/datasets/"+fmt.Sprintf(path, i%40)); a.StatusCode != http.StatusOK {
				t.Fatalf("%s: got status %d %s, want 200", path, a.StatusCode, a.body)
			}
		}
	}
	if got := memory.InUse() - before; got <= 0 || got > 256<<10 {
		t.Errorf("got %d bytes in use, want some, and at most 256 KiB", got)
	}
	if err := r.gateway.Serve([]gateway.Dataset{{Name: "other", Index: r.index, Source: r.source}}, nil); err != nil {
		t.Fatal(err)
	}
}
