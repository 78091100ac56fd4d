package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/shuffle"
)

// homely returns the plans whose shares can follow homes, by query.
func homely() map[string]shuffle.Params {
	return map[string]shuffle.Params{
		"shuffle=slot&window=8":             {Shuffle: shuffle.Slot, Window: 8, Seed: 7},
		"shuffle=window&window=8&strata=8":  {Shuffle: shuffle.Window, Window: 8, Strata: 8, Seed: 7},
		"shuffle=window&window=16&strata=8": {Shuffle: shuffle.Window, Window: 16, Strata: 8, Seed: 7},
	}
}

// TestLocalityFollowsHomes compares bodies, headers and manifests of all ranks with the definition,
// for every tail.
func TestLocalityFollowsHomes(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for query, params := range homely() {
		plan, err := shuffle.NewPlan(params, r.index.First())
		if err != nil {
			t.Fatal(err)
		}
		for _, tail := range []shuffle.Tail{shuffle.Short, shuffle.Drop, shuffle.Pad} {
			for _, c := range [][2]uint64{{1, 1}, {2, 2}, {3, 3}, {8, 8}, {8, 2}, {11, 3}} {
				batching := shuffle.Batching{Samples: 50, BatchSize: 20, Tail: tail}
				for m := range batching.Batches() {
					r.checkLocality(query, plan.Epoch(2), batching, m, c[0], c[1])
				}
			}
		}
	}
}

// checkLocality compares the shares of a batch with their places, and checks that the places cover
// the batch.
func (r *rig) checkLocality(query string, order *shuffle.Epoch, batching shuffle.Batching, m, world, homes uint64) {
	t := r.t
	t.Helper()
	all := batching.Share(m, 0, 1)
	seen := make([]int, all.Count)
	for rank := range world {
		var want bytes.Buffer
		var positions []uint64
		var keys []string
		padded := 0
		for _, place := range order.DealHomes(all, rank, world, homes) {
			seen[place]++
			at := all.First + uint64(place)
			key := r.order[order.At(at%50)]
			want.Write(r.samples[key])
			if at >= 50 {
				padded++
			}
			positions, keys = append(positions, at), append(keys, key)
		}
		want.Write(make([]byte, 1024))
		address := fmt.Sprintf("/v1/datasets/photos/epochs/2/batches/%d%%s?%s&batch_size=20&tail=%s&share=locality&rank=%d&world_size=%d&homes=%d",
			m, query, batching.Tail, rank, world, homes)
		a := r.do("GET", fmt.Sprintf(address, ""))
		if a.StatusCode != http.StatusOK || !bytes.Equal(a.body, want.Bytes()) {
			t.Fatalf("%s: got status %d and %d bytes, want 200 and %d", fmt.Sprintf(address, ""), a.StatusCode, len(a.body), want.Len())
		}
		for name, v := range map[string]string{
			"Millrace-Samples": strconv.Itoa(len(keys)), "Millrace-Padded": strconv.Itoa(padded),
			"Millrace-Crc32c": fmt.Sprintf("%08x", crcOf(want.Bytes())),
		} {
			if got := a.Header.Get(name); got != v {
				t.Errorf("%s: got %s %q, want %q", fmt.Sprintf(address, ""), name, got, v)
			}
		}
		var manifest manifestJSON
		r.json(fmt.Sprintf(address, "/manifest"), &manifest)
		var gotKeys []string
		var gotPositions []uint64
		for _, s := range manifest.Samples {
			if len(s.KeyBytes) > 0 {
				s.Key = string(s.KeyBytes)
			}
			gotKeys, gotPositions = append(gotKeys, s.Key), append(gotPositions, s.Position)
		}
		if !slices.Equal(gotKeys, keys) || !slices.Equal(gotPositions, positions) {
			t.Errorf("%s: got %q at %v, want %q at %v", fmt.Sprintf(address, "/manifest"), gotKeys, gotPositions, keys, positions)
		}
	}
	for place, n := range seen {
		if n != 1 {
			t.Errorf("batch %d for %d ranks: got place %d %d times, want once", m, world, place, n)
		}
	}
}

func TestLocalityKeepsWhatAddressesPromise(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	const path = "/v1/datasets/photos/epochs/0/batches/0?shuffle=window&window=8&strata=8&rank=1&world_size=3"
	plain, local := r.do("GET", path), r.do("GET", path+"&share=locality")
	if got := local.Header.Get("ETag"); got == plain.Header.Get("ETag") || bytes.Equal(local.body, plain.body) {
		t.Errorf("got ETag %s and %d bytes as with contiguous shares, want others", got, len(local.body))
	}
	if got := r.do("HEAD", strings.Replace(path, "&strata=8", "", 1)).Header.Get("ETag"); got == plain.Header.Get("ETag") {
		t.Errorf("got ETag %s as without strata, want another", got)
	}
	canonical := local.Header.Get("Content-Location")
	if a := r.do("GET", canonical); !strings.Contains(canonical, "&share=locality&shuffle=window&strata=8&tail=short&window=8&") || !bytes.Equal(a.body, local.body) {
		t.Errorf("%s: got status %d and other bytes, want share and strata in it and the same", canonical, a.StatusCode)
	}
	if got := local.Header.Get("Link"); !strings.Contains(got, "share=locality&shuffle=window&strata=8") {
		t.Errorf("got Link %s, want share and strata in it", got)
	}
	grouped := r.do("GET", path+"&share=locality&homes=2")
	if got := grouped.Header.Get("Content-Location"); !strings.Contains(got, "&homes=2&rank=1&") || grouped.Header.Get("ETag") == local.Header.Get("ETag") {
		t.Errorf("got address %s and ETag %s with homes=2, want homes in it and another ETag", got, grouped.Header.Get("ETag"))
	}
	if a := r.do("GET", path+"&share=locality&homes=3"); a.Header.Get("Content-Location") != canonical || a.Header.Get("ETag") != local.Header.Get("ETag") {
		t.Errorf("got address %s with a home for each rank, want it as without: %s", a.Header.Get("Content-Location"), canonical)
	}
	n := len(local.body)
	part := r.do("GET", canonical, fmt.Sprintf("Range: bytes=%d-%d", n/3, 2*n/3), "If-Range: "+local.Header.Get("ETag"))
	if part.StatusCode != http.StatusPartialContent || !bytes.Equal(part.body, local.body[n/3:2*n/3+1]) {
		t.Errorf("got status %d and %d bytes of a part, want 206 and %d", part.StatusCode, len(part.body), 2*n/3+1-n/3)
	}
	if a := r.do("GET", canonical, "If-None-Match: "+local.Header.Get("ETag")); a.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d for what is known, want 304", a.StatusCode)
	}
	head := r.do("HEAD", canonical)
	if head.ContentLength != int64(n) || head.Header.Get("Millrace-Crc32c") != local.Header.Get("Millrace-Crc32c") {
		t.Errorf("HEAD: got length %d and checksum %s, want %d and %s", head.ContentLength, head.Header.Get("Millrace-Crc32c"), n, local.Header.Get("Millrace-Crc32c"))
	}
	alone, whole := r.do("GET", "/epoch/0/batch/1?share=locality"), r.do("GET", "/epoch/0/batch/1")
	if !bytes.Equal(alone.body, whole.body) {
		t.Errorf("one rank: got %d bytes that differ from the %d of the batch", len(alone.body), len(whole.body))
	}
}

func TestPlanSaysWhatMoves(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	type resource struct {
		Parameters struct {
			Share  string
			Strata uint64
		}
		Moved *float64
	}
	var plain, local resource
	r.json("/v1/datasets/photos/epochs/0?world_size=3", &plain)
	if plain.Moved != nil || plain.Parameters.Share != "" || plain.Parameters.Strata != 0 {
		t.Errorf("got %+v, want neither share nor strata nor what moves", plain)
	}
	const query = "shuffle=window&window=16&strata=8"
	r.json("/v1/datasets/photos/epochs/0?batch_size=20&world_size=3&share=locality&"+query, &local)
	plan, err := shuffle.NewPlan(homely()[query], r.index.First())
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Moved(shuffle.Batching{Samples: 50, BatchSize: 20, Tail: shuffle.Short}, 3, 3)
	if local.Moved == nil || *local.Moved != want || want == 0 {
		t.Errorf("got %v moved, want %v, above 0", local.Moved, want)
	}
	if p := local.Parameters; p.Share != "locality" || p.Strata != 8 {
		t.Errorf("got share %q and strata %d, want locality and 8", p.Share, p.Strata)
	}
}

func TestSharing_RefusesWhatThePlanCannotHave(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for query, want := range map[string]string{
		"share=locality&shuffle=none&world_size=2":                             "has no homes",
		"share=locality&shuffle=full":                                          "has no homes",
		"share=locality&shuffle=window&window=8&world_size=2":                  "without strata",
		"share=locality&shuffle=window&window=8&strata=4&world_size=5":         "5 homes for 4 strata",
		"share=locality&shuffle=slot&window=4&world_size=5":                    "5 homes for 4 lanes",
		"share=locality&shuffle=slot&window=1048576&world_size=51":             "51 homes for 50 lanes",
		"share=locality&shuffle=slot&window=1048576&world_size=65537":          "more than 65536 ranks requires homes",
		"share=locality&shuffle=slot&balance=bytes&world_size=2":               "exclude each other",
		"homes=5&share=locality&shuffle=slot&window=4&world_size=8":            "5 homes for 4 lanes: homes must be at most 4",
		"homes=5&share=locality&shuffle=window&window=8&strata=4&world_size=8": "5 homes for 4 strata",
		"homes=3&share=locality&shuffle=slot&window=4&world_size=2":            "at most world_size",
		"homes=2&shuffle=slot&window=4&world_size=2":                           "no meaning without share=locality",
		"homes=0&share=locality&shuffle=slot&window=4&world_size=2":            "at least 1",
		"homes=65537&share=locality&shuffle=slot&window=4&world_size=70000":    "at most 65536",
		"share=home":                               "one of contiguous, locality",
		"share=":                                   "empty",
		"strata=4&shuffle=slot":                    "only window has strata",
		"strata=3&shuffle=window&window=8":         "must divide the window",
		"strata=16&shuffle=window&window=8":        "must divide the window",
		"strata=65537&shuffle=window&window=65537": "at most 65536",
		"strata=01&shuffle=window&window=8":        "leading zeros",
	} {
		for _, path := range []string{"/epoch/0/batch/0?", "/v1/datasets/photos/epochs/0/batches/0/manifest?", "/v1/datasets/photos/epochs/0?"} {
			a := r.do("GET", path+query, "If-None-Match: *")
			checkProblem(t, a, http.StatusBadRequest, "invalid_argument", false)
			var p struct {
				Faults []struct{ Name, Reason string }
			}
			if err := json.Unmarshal(a.body, &p); err != nil {
				t.Fatal(err)
			}
			name, _, _ := strings.Cut(query, "=")
			if len(p.Faults) != 1 || p.Faults[0].Name != name || !strings.Contains(p.Faults[0].Reason, want) {
				t.Errorf("%s%s: got faults %v, want one of %s with %q", path, query, p.Faults, name, want)
			}
		}
	}
}

func TestSharing_NamesEveryFault(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	for query, want := range map[string]string{
		"sede=1&seed=x&shuffle=window&window=8&strata=3":                         "sede seed strata",
		"tail=long&shuffle=full&share=locality&rank=5&world_size=5":              "tail rank share",
		"rank=3&shuffle=window&window=8&strata=2&share=locality&world_size=3":    "rank share",
		"window=08&shuffle=window&strata=3&share=locality&world_size=4":          "window",
		"shuffle=window&window=8&strata=03&share=locality&world_size=4":          "strata",
		"shuffle=window&window=8&strata=4&share=locality&world_size=05":          "world_size",
		"shuffle=window&window=8&strata=3&share=locality&world_size=4&epochs=0":  "epochs strata",
		"shuffle=any&window=8&strata=3&share=locality&world_size=4&importance=a": "shuffle importance",
	} {
		a := r.do("GET", "/epoch/0/batch/0?"+query)
		checkProblem(t, a, http.StatusBadRequest, "invalid_argument", false)
		var p struct{ Faults []struct{ Name string } }
		if err := json.Unmarshal(a.body, &p); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range p.Faults {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: got faults of %s, want %s", query, got, want)
		}
	}
}

// TestLossesOfScatteredShares: losses reported for shares that follow homes are stored for the same
// positions. So the snapshot equals the one from the reports of a single rank.
func TestLossesOfScatteredShares(t *testing.T) {
	const query = "seed=3&shuffle=slot&window=8&tail=pad"
	alone, ranks := newRig(t, 50, 800, nil), newRig(t, 50, 800, nil)
	for _, body := range alone.reports(0, query, 1) {
		alone.accept(body)
	}
	for _, body := range ranks.reports(0, query+"&share=locality", 3) {
		ranks.accept(body)
	}
	want := alone.freeze(http.StatusCreated, 0, query, "")
	if got := ranks.freeze(http.StatusCreated, 0, query+"&share=locality&world_size=3", ""); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	draws := query + "&importance=" + want.Snapshot
	var keys []string
	for rank := range 3 {
		a := alone.do("GET", fmt.Sprintf("/epoch/1/batch/0?%s&share=locality&rank=%d&world_size=3", draws, rank))
		if a.StatusCode != http.StatusOK {
			t.Fatalf("rank %d: got status %d, want 200: %s", rank, a.StatusCode, a.body)
		}
		keys = append(keys, names(t, a.body)...)
	}
	whole := names(t, alone.do("GET", "/epoch/1/batch/0?"+draws).body)
	slices.Sort(keys)
	slices.Sort(whole)
	if !slices.Equal(keys, whole) {
		t.Errorf("got draws %q, want %q", keys, whole)
	}
}

// cursors records the cursors of readers.
type cursors struct {
	gateway.Source
	mu  sync.Mutex // guards all
	all []shuffle.Cursor
}

func (c *cursors) Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	c.mu.Lock()
	c.all = append(c.all, at)
	c.mu.Unlock()
	return c.Source.Read(ctx, at, chunks)
}

// TestCursorTellsTheShare: the cursor determines later samples and their ranks if the plan
// determines them.
func TestCursorTellsTheShare(t *testing.T) {
	c := &cursors{}
	r := newRig(t, 50, 800, func(cfg *gateway.Config) { c.Source, cfg.Datasets[0].Source = cfg.Datasets[0].Source, c })
	const path = "/epoch/0/batch/1?shuffle=slot&window=8&rank=1&world_size=3"
	for _, query := range []string{"&tail=drop", "&tail=pad&share=locality", "&balance=bytes"} {
		if a := r.do("GET", path+query); a.StatusCode != http.StatusOK {
			t.Fatalf("%s: got status %d, want 200", query, a.StatusCode)
		}
	}
	type share struct {
		Sharing shuffle.Sharing
		Dealt   bool
		Tail    shuffle.Tail
	}
	var got []share
	for _, at := range c.all {
		got = append(got, share{at.Sharing, at.Dealt, at.Tail})
	}
	want := []share{{"", false, shuffle.Drop}, {shuffle.Locality, false, shuffle.Pad}, {"", true, shuffle.Short}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	later, ok := c.all[1].Later(nil, 1)
	next := r.do("GET", strings.Replace(path, "batch/1", "batch/2", 1)+"&tail=pad&share=locality")
	var keys []string
	for _, n := range later {
		key, _, _ := strings.Cut(r.order[n], " ") // the odd sample's key contains more text
		keys = append(keys, key)
	}
	found := names(t, next.body)
	for i, name := range found {
		found[i], _, _ = strings.Cut(name, " ")
	}
	if !ok || !slices.Equal(found, keys) {
		t.Errorf("got %q later, want %q", keys, found)
	}
}
