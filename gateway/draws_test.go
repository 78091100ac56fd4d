package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// pictureJSON is a picture as a client decodes it.
type pictureJSON struct {
	Batches, Chunks, From, To, Columns, Rows uint64
	FromChunk                                uint64 `json:"from_chunk"`
	ToChunk                                  uint64 `json:"to_chunk"`
	Exact                                    bool
	LookedAt                                 uint64 `json:"looked_at"`
	OutOf                                    uint64 `json:"out_of"`
	Cells                                    [][]int64
	RowChunks                                []uint64 `json:"row_chunks"`
	Windows                                  *struct {
		Count   uint64
		Borders []struct{ Position, Batch, Place uint64 }
	}
	Lanes *struct {
		Count   uint64
		Borders []uint64
	}
}

func unmarshal(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("got %q, want JSON: %v", text, err)
	}
}

// counts expands the cells to the count of each row, column by column.
func (p *pictureJSON) counts(t *testing.T) [][]int64 {
	t.Helper()
	out := make([][]int64, 0, len(p.Cells))
	for _, column := range p.Cells {
		var full []int64
		for _, n := range column {
			if n < 0 {
				full = append(full, make([]int64, -n)...)
			} else {
				full = append(full, n)
			}
		}
		if uint64(len(full)) > p.Rows {
			t.Fatalf("got a column of %d rows, want at most %d", len(full), p.Rows)
		}
		out = append(out, append(full, make([]int64, p.Rows-uint64(len(full)))...))
	}
	return out
}

// TestPicturesShowWhatIsDelivered compares pictures with the manifests of all batches.
func TestPicturesShowWhatIsDelivered(t *testing.T) {
	r := newRig(t, 400, 800, nil)
	r.split("train=3,val=1", "")
	bad := r.quarantine(3, 50, 51, 52)
	for _, report := range r.reports(0, "seed=3", 1) {
		r.post(importancePath, report)
	}
	snapshot := r.freeze(http.StatusCreated, 0, "seed=3", "").Snapshot
	number := map[string]uint64{}
	for i, key := range r.order {
		number[key] = uint64(i)
	}
	for _, query := range []string{
		"shuffle=none", "shuffle=full", "shuffle=window&window=7", "shuffle=window&window=8&strata=4", "shuffle=slot&window=5", "shuffle=slot&window=5&tail=pad&batch_size=150",
		"subset=train", "importance=" + snapshot, "quarantine=" + bad, "subset=train&quarantine=samples:3,50-52", "rank=1&world_size=3", "rank=1&world_size=3&tail=drop",
	} {
		want := map[[2]uint64]int64{} // by batch and chunk
		var plan struct{ Batches uint64 }
		r.json("/v1/datasets/photos/epochs/2?"+query, &plan)
		for batch := range plan.Batches {
			var m manifestJSON
			r.json(fmt.Sprintf("/v1/datasets/photos/epochs/2/batches/%d/manifest?%s", batch, query), &m)
			for _, s := range m.Samples {
				if len(s.KeyBytes) > 0 {
					s.Key = string(s.KeyBytes)
				}
				want[[2]uint64{batch, uint64(r.index.ChunkOf(number[s.Key]))}]++
			}
		}
		for _, in := range []string{"", "&columns=3&rows=5", "&from=1&to=2&from_chunk=3&to_chunk=17&rows=7", "&axis=drawn"} {
			if in == "&axis=drawn" && query == "shuffle=full" {
				continue
			}
			var p pictureJSON
			r.json("/v1/datasets/photos/epochs/2/draws?"+query+in, &p)
			if !p.Exact || p.Batches != plan.Batches || p.Chunks != uint64(r.index.Chunks()) {
				t.Errorf("%s%s: got %+v, want an exact picture of %d batches", query, in, p, plan.Batches)
			}
			if diff := gocmp.Diff(shrunk(want, p), p.counts(t)); diff != "" {
				t.Errorf("%s%s: the picture differs from the manifests:\n%s", query, in, diff)
			}
		}
	}
}

// shrunk sums the samples by batch and chunk into the columns and rows of a picture.
func shrunk(by map[[2]uint64]int64, p pictureJSON) [][]int64 {
	part := func(x, first, end, parts uint64) (uint64, bool) {
		for i := range parts {
			if x >= first+i*(end-first)/parts && x < first+(i+1)*(end-first)/parts {
				return i, true
			}
		}
		return 0, false
	}
	out := make([][]int64, p.Columns)
	for i := range out {
		out[i] = make([]int64, p.Rows)
	}
	for at, n := range by {
		chunk := at[1]
		if p.RowChunks != nil {
			chunk = uint64(slices.Index(p.RowChunks, chunk))
		}
		column, in := part(at[0], p.From, p.To, p.Columns)
		row, inside := part(chunk, p.FromChunk, p.ToChunk, p.Rows)
		if in && inside {
			out[column][row] += n
		}
	}
	return out
}

// TestPicturesMarkWindowsAndLanes: with axis=drawn, a window draws only from its own places, and
// lanes are bands.
func TestPicturesMarkWindowsAndLanes(t *testing.T) {
	r := newRig(t, 400, 800, nil)
	var p pictureJSON
	r.json("/v1/datasets/photos/epochs/2/draws?axis=drawn&shuffle=window&window=10&batch_size=1", &p)
	if p.Windows == nil || p.Lanes != nil || p.Windows.Count != uint64(len(p.Windows.Borders))+1 || len(p.Windows.Borders) != (r.index.Chunks()-1)/10 {
		t.Fatalf("got windows %+v of %d chunks", p.Windows, r.index.Chunks())
	}
	r.json("/v1/datasets/photos/epochs/2/draws?axis=drawn&shuffle=window&window=10&batch_size=1&columns=400", &p)
	cells := p.counts(t)
	for i, b := range p.Windows.Borders {
		for column, rows := range cells {
			for row, n := range rows {
				if n > 0 && (uint64(column) < b.Batch) != (uint64(row) < b.Place) {
					t.Fatalf("border %d, %+v: batch %d draws from place %d", i, b, column, row)
				}
			}
		}
	}
	p = pictureJSON{}
	p = pictureJSON{}
	r.json("/v1/datasets/photos/epochs/2/draws?shuffle=window&window=10&batch_size=1&from=100&to=101", &p)
	if p.Windows.Count != 1 || len(p.Windows.Borders) != 0 {
		t.Errorf("got windows %+v of one batch of one sample, want one window", p.Windows)
	}
	p = pictureJSON{}
	r.json("/v1/datasets/photos/epochs/2/draws?axis=drawn&shuffle=slot&window=10", &p)
	if p.Lanes == nil || p.Windows != nil || p.Lanes.Count != 10 || len(p.Lanes.Borders) != 9 || !slices.IsSorted(p.Lanes.Borders) {
		t.Errorf("got lanes %+v, want ten with nine borders", p.Lanes)
	}
	p = pictureJSON{}
	r.json("/v1/datasets/photos/epochs/2/draws?shuffle=slot&window=10", &p)
	if p.Lanes == nil || p.Lanes.Count != 10 || len(p.Lanes.Borders) != 0 {
		t.Errorf("got lanes %+v in stored order, want their number alone", p.Lanes)
	}
	p = pictureJSON{}
	r.json("/v1/datasets/photos/epochs/2/draws?tail=drop&batch_size=1000&columns=3", &p)
	if p.Batches != 0 || p.To != 0 || p.Columns != 0 || len(p.Cells) != 0 || !p.Exact {
		t.Errorf("got %+v of an epoch without batches, want an empty picture", p)
	}
}

// TestPicturesRefuse checks that invalid pictures are refused, with all faults in one response.
func TestPicturesRefuse(t *testing.T) {
	r := newRig(t, 100, 800, nil)
	for query, faults := range map[string]string{
		"columns=0&rows=513&axis=up&x=1":         "axis columns rows x",
		"from=3&to=3":                            "to",
		"from=7":                                 "from",
		"from=99&to=100":                         "from to",
		"to=8":                                   "to",
		"from_chunk=5&to_chunk=5":                "to_chunk",
		"from_chunk=1000&to_chunk=1000":          "from_chunk to_chunk",
		"shuffle=full&axis=drawn":                "axis",
		"balance=bytes&world_size=2":             "balance",
		"share=locality&world_size=2&window=8":   "share",
		"rank=3":                                 "rank",
		"from=-1&to=1e3&seed=x":                  "from seed to",
		"tail=drop&batch_size=1000&from=1&to=2":  "from to",
		"batch_size=10&from=09&columns=&rows=+1": "columns from rows",
	} {
		a := r.do("GET", "/v1/datasets/photos/epochs/0/draws?"+query)
		checkProblem(t, a, http.StatusBadRequest, "invalid_argument", false)
		var refusal struct{ Faults []struct{ Name string } }
		unmarshal(t, a.body, &refusal)
		var names []string
		for _, f := range refusal.Faults {
			names = append(names, f.Name)
		}
		if slices.Sort(names); strings.Join(slices.Compact(names), " ") != faults {
			t.Errorf("%s: got faults of %v, want %s", query, names, faults)
		}
	}
	served := []string{"balance=bytes", "balance=samples&share=contiguous&world_size=2&rank=1", "format=framed&table=keys&fields=cls", "columns=512&rows=512&from=0&to=7&from_chunk=0&to_chunk=1"}
	for _, query := range served {
		if a := r.do("GET", "/v1/datasets/photos/epochs/0/draws?"+query); a.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, want 200: %s", query, a.StatusCode, a.body)
		}
	}
	mixed := newRig(t, 20, 800, nil)
	checkProblem(t, mixed.do("GET", "/v1/datasets/absent/epochs/0/draws"), http.StatusNotFound, "not_found", false)
}

// TestPicturesHaveAddresses: the canonical address returns the same picture with the same ETag.
// Another rectangle has another ETag.
func TestPicturesHaveAddresses(t *testing.T) {
	r := newRig(t, 100, 800, nil)
	a := r.do("GET", "/v1/datasets/photos/epochs/1/draws?to=5&columns=2")
	b := r.do("GET", a.Header.Get("Content-Location"))
	if string(a.body) != string(b.body) || a.Header.Get("ETag") != b.Header.Get("ETag") || a.Header.Get("Content-Location") != b.Header.Get("Content-Location") {
		t.Errorf("got another picture at its canonical address:\n%s\n%s\n%v\n%v", a.body, b.body, a.Header, b.Header)
	}
	if got := b.Header.Get("Cache-Control"); got != "public, max-age=3600" {
		t.Errorf("got Cache-Control %q with a generation, want an hour", got)
	}
	if c := r.do("GET", "/v1/datasets/photos/epochs/1/draws", "If-None-Match: "+a.Header.Get("ETag")); c.StatusCode != http.StatusOK {
		t.Errorf("got status %d for another rectangle, want 200", c.StatusCode)
	}
	if c := r.do("GET", "/v1/datasets/photos/epochs/1/draws?to=5&columns=2", "If-None-Match: "+a.Header.Get("ETag")); c.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d for the same, want 304", c.StatusCode)
	}
}

// FuzzDraws requests pictures with any query. The response is a picture of the size that it states,
// or a refusal that blames the sender.
func FuzzDraws(f *testing.F) {
	r := newRig(f, 100, 800, nil)
	for _, q := range []string{"", "from=1&to=3", "axis=drawn&shuffle=window&window=3", "columns=512&rows=512", "tail=pad&batch_size=2147483648", "to_chunk=18446744073709551615", "world_size=2147483648&rank=5", "batch_size=1&from=99", "subset=samples:5-9", "quarantine=samples:1-98"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		a := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/datasets/photos/epochs/0/draws", nil)
		req.URL.RawQuery = query
		r.gateway.Handler().ServeHTTP(a, req)
		switch a.Code {
		case http.StatusOK:
			var p pictureJSON
			unmarshal(t, a.Body.Bytes(), &p)
			if cells := p.counts(t); uint64(len(cells)) != p.Columns || p.Columns > 512 || p.Rows > 512 || p.To > p.Batches || p.ToChunk > p.Chunks {
				t.Errorf("%q: got %s", query, a.Body)
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestURITooLong:
		default:
			t.Errorf("%q: got status %d: %s", query, a.Code, a.Body)
		}
	})
}
