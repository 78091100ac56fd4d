package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// split stores a split of the rig's dataset.
func (r *rig) split(rule, salt string) selection.SplitResult {
	r.t.Helper()
	parsed, err := selection.ParseRule(rule, salt)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := r.selections().Split(r.t.Context(), r.index, parsed)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// quarantine stores a list of bad samples.
func (r *rig) quarantine(numbers ...uint64) string {
	r.t.Helper()
	q := selection.Quarantine{Generation: r.index.Generation(), Samples: r.index.Samples()}
	for _, n := range numbers {
		q.Bad = append(q.Bad, selection.Bad{Number: n, Key: r.order[n]})
	}
	digest, _, err := r.selections().Quarantine(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return digest
}

// manifestEntry is a sample in a manifest.
type manifestEntry struct {
	Source, Key string
	Position    uint64
	Length      uint32
	Raw         []byte `json:"key_base64"`
}

// entries returns the samples of a manifest. A key that is not UTF-8 is in Key too.
func (r *rig) entries(path string) []manifestEntry {
	r.t.Helper()
	var m struct{ Samples []manifestEntry }
	r.json(path, &m)
	for i, s := range m.Samples {
		if s.Raw != nil {
			m.Samples[i].Key = string(s.Raw)
		}
	}
	return m.Samples
}

// epochKeys returns the keys of an epoch from its manifests, and compares each body with the
// samples in its manifest.
func (r *rig) epochKeys(epoch int, query string) []string {
	r.t.Helper()
	var plan struct{ Batches, Samples uint64 }
	r.json(fmt.Sprintf("/v1/datasets/photos/epochs/%d?%s", epoch, query), &plan)
	var keys []string
	for batch := range plan.Batches {
		at := fmt.Sprintf("/v1/datasets/photos/epochs/%d/batches/%d", epoch, batch)
		var want []byte
		for _, s := range r.entries(at + "/manifest?" + query) {
			if s.Position != uint64(len(keys)) {
				r.t.Fatalf("%s: got position %d, want %d", at, s.Position, len(keys))
			}
			keys = append(keys, s.Key)
			want = append(want, r.samples[s.Key]...)
		}
		if got := r.do("GET", at+"?"+query).body; !bytes.Equal(got, append(want, make([]byte, 1024)...)) {
			r.t.Fatalf("%s: the body is not what its manifest says", at)
		}
	}
	if uint64(len(keys)) != plan.Samples {
		r.t.Fatalf("epoch %d: got %d samples, want %d", epoch, len(keys), plan.Samples)
	}
	return keys
}

func (r *rig) checkOccurrences(epoch int, query string, keys []string) {
	r.t.Helper()
	for _, key := range r.order {
		var found struct {
			Occurrences []struct{ Epoch, Batch, Position uint64 }
		}
		r.json(fmt.Sprintf("/v1/datasets/photos/occurrences?key=%s&epochs=%d&%s", url.QueryEscape(key), epoch, query), &found)
		got := []int{}
		for _, o := range found.Occurrences {
			got = append(got, int(o.Position))
		}
		want := []int{}
		for at, k := range keys {
			if k == key {
				want = append(want, at)
			}
		}
		if !slices.Equal(got, want) {
			r.t.Errorf("%s: occurrences of %q: got %v, want %v", query, key, got, want)
		}
	}
}

func TestSubsetsTileTheDataset(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	m := r.split("train=3,val=1", "")
	for _, plan := range []string{"shuffle=none", "shuffle=window&window=2", "shuffle=window&window=4&strata=2", "shuffle=slot&window=4", "shuffle=full"} {
		var all []string
		for i, name := range []string{"train", "val"} {
			query := plan + "&batch_size=7&subset=" + name
			keys := r.epochKeys(2, query)
			if uint64(len(keys)) != m.Counts[i] {
				t.Errorf("%s: got %d samples, want %d", query, len(keys), m.Counts[i])
			}
			r.checkOccurrences(2, query, keys)
			all = append(all, keys...)
		}
		slices.Sort(all)
		if want := slices.Sorted(slices.Values(r.order)); !slices.Equal(all, want) {
			t.Errorf("%s: train and val have %d samples, want each of %d once", plan, len(all), len(want))
		}
	}
}

func TestSubsetsAreSharedOut(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	r.split("train=3,val=1", "")
	const base = "subset=train&batch_size=8&tail=pad&seed=3"
	for _, how := range []string{"", "&balance=bytes", "&share=locality&shuffle=slot&window=4", "&share=locality&shuffle=window&window=4&strata=4"} {
		whole := r.manifest("/v1/datasets/photos/epochs/1/batches/1/manifest?" + base + strings.Replace(how, "&balance=bytes", "", 1))
		var shared []string
		for rank := range 3 {
			shared = append(shared, r.manifest(fmt.Sprintf("/v1/datasets/photos/epochs/1/batches/1/manifest?%s%s&world_size=3&rank=%d", base, how, rank))...)
		}
		slices.Sort(whole)
		slices.Sort(shared)
		if !slices.Equal(whole, shared) || len(whole) != 8 {
			t.Errorf("%s: ranks have %v, want %v", how, shared, whole)
		}
	}
}

// manifest returns the keys of a batch from its manifest.
func (r *rig) manifest(path string) []string {
	r.t.Helper()
	var keys []string
	for _, s := range r.entries(path) {
		keys = append(keys, s.Key)
	}
	return keys
}

func TestSubsetIsNamedByItsDigest(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	m := r.split("train=3,val=1", "")
	other := r.split("train=1,val=1", "x")
	a := r.do("GET", "/epoch/0/batch/0?subset=train")
	canonical := a.Header.Get("Content-Location")
	if want := "subset=" + m.Digest + ":train"; !strings.Contains(canonical, want) {
		t.Fatalf("got Content-Location %s, want %s in it", canonical, want)
	}
	again := r.do("GET", canonical)
	if again.Header.Get("ETag") != a.Header.Get("ETag") || !bytes.Equal(again.body, a.body) {
		t.Error("the canonical address gives another answer")
	}
	reads := r.source.reads.Load()
	if got := r.do("GET", canonical, "If-None-Match: "+a.Header.Get("ETag")); got.StatusCode != http.StatusNotModified || r.source.reads.Load() != reads {
		t.Errorf("got %d and %d reads, want 304 and none", got.StatusCode, r.source.reads.Load()-reads)
	}
	if head := r.do("HEAD", canonical); head.Header.Get("Content-Length") != fmt.Sprint(len(a.body)) || len(head.body) != 0 {
		t.Errorf("HEAD: got length %s, want %d", head.Header.Get("Content-Length"), len(a.body))
	}
	b := r.do("GET", "/epoch/0/batch/0?subset="+other.Digest+":train")
	if b.StatusCode != http.StatusOK || b.Header.Get("ETag") == a.Header.Get("ETag") {
		t.Errorf("another split: got %d and the same ETag, want another", b.StatusCode)
	}
	if c := r.do("GET", "/epoch/0/batch/0?subset="+other.Digest+"%3Atrain"); c.Header.Get("ETag") != b.Header.Get("ETag") {
		t.Errorf("with the colon escaped: got %d and another ETag", c.StatusCode)
	}
	plain := r.do("GET", "/epoch/0/batch/0").Header.Get("Content-Location")
	if strings.Contains(plain, "subset") || strings.Contains(plain, "quarantine") {
		t.Errorf("got %s, want an address as it was before there were subsets", plain)
	}
}

func TestQuarantineReplacesTheBadAlone(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	first := r.index.First()
	bad := []uint64{1, 20}
	for n := first[2]; n < first[3]; n++ { // a whole chunk
		bad = append(bad, n)
	}
	slices.Sort(bad)
	bad = slices.Compact(bad)
	digest := r.quarantine(bad...)
	plain, replaced := r.do("HEAD", "/epoch/0/batch/0"), r.do("HEAD", "/epoch/0/batch/0?quarantine="+digest)
	if plain.Header.Get("ETag") == replaced.Header.Get("ETag") || !strings.Contains(replaced.Header.Get("Content-Location"), "quarantine="+digest) {
		t.Errorf("got ETag %s and Content-Location %s, want others than without a quarantine", replaced.Header.Get("ETag"), replaced.Header.Get("Content-Location"))
	}
	for _, plan := range []string{"shuffle=none", "shuffle=window&window=2", "shuffle=slot&window=4", "shuffle=full"} {
		for epoch := range 2 {
			query := plan + "&batch_size=7"
			before, after := r.epochKeys(epoch, query), r.epochKeys(epoch, query+"&quarantine="+digest)
			q, err := shuffle.NewQuarantine(7, first, bad)
			if err != nil {
				t.Fatal(err)
			}
			for at, key := range before {
				n := uint64(slices.Index(r.order, key))
				if want := r.order[q.Substitute(uint64(epoch), n)]; after[at] != want {
					t.Fatalf("%s, position %d: got %q, want %q", query, at, after[at], want)
				}
			}
			r.checkOccurrences(epoch, query+"&quarantine="+digest, after)
		}
	}
}

// TestQuarantineOfASubset: substitutes belong to the same subset.
func TestQuarantineOfASubset(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	r.split("train=1,val=1", "")
	digest := r.quarantine(0, 1, 2, 3, 4, 5, 6, 7, 8, 30)
	query := "shuffle=slot&batch_size=7&subset=train"
	before, after := r.epochKeys(0, query), r.epochKeys(0, query+"&quarantine="+digest)
	replaced := 0
	for at, key := range before {
		n := slices.Index(r.order, key)
		switch isBad := n <= 8 || n == 30; {
		case !isBad && after[at] != key:
			t.Errorf("position %d: got %q, want %q", at, after[at], key)
		case isBad && (after[at] == key || !slices.Contains(before, after[at])):
			t.Errorf("position %d: got %q in the place of a bad sample, want a healthy one of the subset", at, after[at])
		case isBad:
			replaced++
		}
	}
	if replaced == 0 {
		t.Error("no bad sample was in the subset")
	}
	r.checkOccurrences(0, query+"&quarantine="+digest, after)
}

func TestSelectionRefuses(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	none := strings.Repeat("ab", 32)
	checkProblem(t, r.do("GET", "/epoch/0/batch/0?subset=train"), http.StatusNotFound, "not_found", false)
	m := r.split("train=1,val=1", "")
	var all []uint64
	for n := range r.index.Samples() {
		if n != 3 {
			all = append(all, n)
		}
	}
	members := r.epochKeys(0, "shuffle=none&subset=val")
	var val []uint64
	for _, key := range members {
		val = append(val, uint64(slices.Index(r.order, key)))
	}
	slices.Sort(val)
	for query, want := range map[string]int{
		"subset=test":                                                    404,
		"subset=" + none + ":train":                                      404,
		"subset=" + m.Digest + ":test":                                   404,
		"subset=" + m.Digest:                                             400,
		"subset=" + m.Digest[:63] + ":train":                             400,
		"subset=a%2Fb":                                                   400,
		"quarantine=x":                                                   400,
		"quarantine=" + none:                                             404,
		"importance=" + none + "&subset=train":                           400,
		"importance=" + none + "&quarantine=" + none:                     400,
		"subset=val&quarantine=" + r.quarantine(val...):                  400, // no healthy sample is left
		"quarantine=" + r.quarantine(all...) + "&subset=":                400,
		"subset=train&share=locality&shuffle=slot&window=1&world_size=9": 400,
	} {
		code := map[int]string{400: "invalid_argument", 404: "not_found"}[want]
		checkProblem(t, r.do("GET", "/epoch/0/batch/0?"+query), want, code, false)
	}
	n := r.do("GET", "/v1/datasets/photos/epochs/0?subset=train").Header.Get("Content-Location")
	checkProblem(t, r.post("/v1/datasets/photos/importance", fmt.Sprintf(`{"url":%q,"losses":[1]}`, strings.Replace(n, "/epochs/0?", "/epochs/0/batches/0?", 1))), 400, "invalid_argument", false)
}

func TestDamagedSelections(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	m := r.split("train=1,val=1", "")
	digest := r.quarantine(1)
	for _, key := range []string{"data/.millrace/subset/" + m.Digest, "data/.millrace/quarantine/" + digest} {
		obj, err := r.store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, obj.Size)
		if err := r.store.ReadRange(t.Context(), obj.Ref(), 0, b); err != nil {
			t.Fatal(err)
		}
		b[len(b)-6] ^= 1
		if _, err := r.store.Put(t.Context(), key, bytes.NewReader(b), int64(len(b)), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	checkProblem(t, r.do("GET", "/epoch/0/batch/0?subset=train"), http.StatusBadGateway, "store_inconsistent", false)
	checkProblem(t, r.do("GET", "/epoch/0/batch/0?quarantine="+digest), http.StatusBadGateway, "store_inconsistent", false)
}
