package gateway_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/shuffle"
)

type snapshotJSON struct {
	Snapshot, Generation, Plan, Base string
	Epoch, Samples, Reported         uint64
	HotSamples                       uint64  `json:"hot_samples"`
	HotShare                         float64 `json:"hot_share"`
	Repeat                           uint32
	Coverage                         float64
	Effective                        float64 `json:"effective_sample_size"`
}

// lossOf returns an example of a trainer's loss at a position.
func lossOf(position uint64) float64 { return float64((position*7919)%101) / 7 }

// reports returns the bodies of loss reports for all batches of an epoch, one per rank, with the
// canonical addresses of the batches.
func (r *rig) reports(epoch int, query string, ranks int) []string {
	r.t.Helper()
	var out []string
	for m := 0; ; m++ {
		for rank := range ranks {
			address := fmt.Sprintf("/v1/datasets/photos/epochs/%d/batches/%d/manifest?%s&rank=%d&world_size=%d", epoch, m, query, rank, ranks)
			a := r.do("GET", address)
			if a.StatusCode == http.StatusNotFound {
				return out
			}
			if a.StatusCode != http.StatusOK {
				r.t.Fatalf("%s: got status %d: %s", address, a.StatusCode, a.body)
			}
			var m manifestJSON
			if err := json.Unmarshal(a.body, &m); err != nil {
				r.t.Fatal(err)
			}
			losses := make([]float64, len(m.Samples))
			for i, s := range m.Samples {
				losses[i] = lossOf(s.Position)
			}
			body, err := json.Marshal(map[string]any{"url": a.Header.Get("Content-Location"), "losses": losses})
			if err != nil {
				r.t.Fatal(err)
			}
			out = append(out, string(body))
		}
	}
}

const importancePath = "/v1/datasets/photos/importance"

// freeze creates a snapshot of an epoch's losses.
func (r *rig) freeze(status int, epoch int, query, more string) snapshotJSON {
	r.t.Helper()
	address := r.do("HEAD", fmt.Sprintf("/v1/datasets/photos/epochs/%d?%s", epoch, query)).Header.Get("Content-Location")
	a := r.post(importancePath+"/snapshots", fmt.Sprintf(`{"url":%q%s}`, address, more))
	if a.StatusCode != status {
		r.t.Fatalf("freeze epoch %d: got status %d, want %d: %s", epoch, a.StatusCode, status, a.body)
	}
	var s snapshotJSON
	if err := json.Unmarshal(a.body, &s); err != nil {
		r.t.Fatal(err)
	}
	if got, want := a.Header.Get("Location"), importancePath+"/"+s.Snapshot+"?generation="+s.Generation; got != want {
		r.t.Errorf("got Location %q, want %q", got, want)
	}
	return s
}

func (r *rig) accept(body string) {
	r.t.Helper()
	a := r.post(importancePath, body)
	var got struct{ Accepted int }
	if err := json.Unmarshal(a.body, &got); a.StatusCode != http.StatusOK || err != nil || got.Accepted == 0 {
		r.t.Fatalf("got status %d and %s, want 200 and a number above 0", a.StatusCode, a.body)
	}
}

// snapshot reports all losses of epoch 0 and freezes them.
func (r *rig) snapshot() snapshotJSON {
	r.t.Helper()
	for _, body := range r.reports(0, "seed=3", 1) {
		r.accept(body)
	}
	return r.freeze(http.StatusCreated, 0, "seed=3", "")
}

// TestImportanceIsTheSameWhoeverReports: the same losses, reported in another order, in other
// pieces and by other shares, give the same snapshot.
func TestImportanceIsTheSameWhoeverReports(t *testing.T) {
	first, second := newRig(t, 50, 800, nil), newRig(t, 50, 800, nil)
	for _, body := range first.reports(0, "seed=3&tail=pad", 1) {
		first.accept(body)
		first.accept(body) // reporting the same losses again is not a conflict
	}
	want := first.freeze(http.StatusCreated, 0, "seed=3&tail=pad", `,"hot_share":0.2,"repeat":5`)
	if want.Reported != 64 || want.Samples != 50 || want.HotSamples != 10 || want.Repeat != 5 || want.HotShare != .2 || want.Epoch != 0 {
		t.Errorf("got %+v, want 64 positions of 50 samples, of which 10 are hot 5 times", want)
	}
	if !(want.Coverage > .5 && want.Coverage < 1 && want.Effective > 10 && want.Effective < 50) {
		t.Errorf("got coverage %v and effective sample size %v, want some of 1 and of 50", want.Coverage, want.Effective)
	}
	if again := first.freeze(http.StatusOK, 0, "seed=3&tail=pad&balance=bytes&rank=1&world_size=2", `,"hot_share":0.2,"repeat":5`); again != want {
		t.Errorf("got %+v for another rank, want %+v", again, want)
	}
	other := second.reports(0, "seed=3&tail=pad&balance=bytes", 3)
	slices.Reverse(other)
	second.accept(`{"batches":[` + strings.Join(other, ",") + `]}`)
	if got := second.freeze(http.StatusCreated, 0, "seed=3&tail=pad", `,"hot_share":0.2,"repeat":5`); got != want {
		t.Errorf("got %+v from another data set's copy, want %+v", got, want)
	}
	var described snapshotJSON
	second.json(importancePath+"/"+want.Snapshot, &described)
	if described != want {
		t.Errorf("got %+v, want %+v", described, want)
	}
	etag := second.do("HEAD", importancePath+"/"+want.Snapshot).Header.Get("ETag")
	a := second.do("GET", importancePath+"/"+want.Snapshot, "If-None-Match: "+etag)
	if a.StatusCode != http.StatusNotModified {
		t.Errorf("got status %d for what is known, want 304", a.StatusCode)
	}
}

// virtual is the reference for the draws of an epoch. It computes the sample of each virtual sample
// with the inverse of the gateway's function.
func (r *rig) virtual(snapshot string, params shuffle.Params, epoch uint64) (*shuffle.Epoch, []uint64) {
	r.t.Helper()
	s, err := r.losses(importance.Config{Reader: r.store}).Open(r.t.Context(), snapshot, r.index.Generation(), r.index.First())
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Close()
	params.Importance = snapshot
	plan, err := shuffle.NewWeightedPlan(params, r.index.First(), s.Totals())
	if err != nil {
		r.t.Fatal(err)
	}
	e := plan.Epoch(epoch)
	samples := make([]uint64, plan.Samples())
	for chunk := range r.index.Chunks() {
		weights, err := s.Weights(r.t.Context(), chunk)
		if err != nil {
			r.t.Fatal(err)
		}
		for place := range weights {
			lo, hi := e.Draws().Of(chunk, weights, uint64(place))
			for v := lo; v < hi; v++ {
				samples[v] = r.index.First()[chunk] + uint64(place)
			}
		}
	}
	return e, samples
}

// TestImportanceDrawsByWeight compares bodies, manifests and occurrences with the reference, for
// every shuffle.
func TestImportanceDrawsByWeight(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	snapshot := r.snapshot().Snapshot
	for _, params := range []shuffle.Params{
		{Shuffle: shuffle.None, Seed: 7}, {Shuffle: shuffle.Window, Window: 2, Seed: 7}, {Shuffle: shuffle.Slot, Window: 3, Seed: 7}, {Shuffle: shuffle.Full, Seed: 7},
	} {
		order, samples := r.virtual(snapshot, params, 4)
		query := "importance=" + snapshot + "&tail=pad&shuffle=" + params.Shuffle
		if params.Window > 0 {
			query += "&window=" + strconv.FormatUint(params.Window, 10)
		}
		var came []string
		listed := map[string][]uint64{}
		for m := range uint64(4) {
			var want bytes.Buffer
			for i := range uint64(16) {
				key := r.order[samples[order.At((m*16+i)%50)]]
				want.Write(r.samples[key])
				if came = append(came, key); m*16+i < 64 {
					listed[key] = append(listed[key], m*16+i)
				}
			}
			want.Write(make([]byte, 1024))
			a := r.do("GET", fmt.Sprintf("/v1/datasets/photos/epochs/4/batches/%d?%s", m, query))
			if a.StatusCode != http.StatusOK || !bytes.Equal(a.body, want.Bytes()) {
				t.Fatalf("%s, batch %d: got status %d and %d bytes, want 200 and %d", params.Shuffle, m, a.StatusCode, len(a.body), want.Len())
			}
			if got, want := a.Header.Get("Millrace-Crc32c"), fmt.Sprintf("%08x", crcOf(a.body)); got != want {
				t.Errorf("%s, batch %d: got checksum %s, want %s", params.Shuffle, m, got, want)
			}
			location := a.Header.Get("Content-Location")
			if again := r.do("GET", location); !strings.Contains(location, "importance="+snapshot) || !bytes.Equal(again.body, a.body) {
				t.Errorf("%s: got other bytes than the batch's, want importance in it and the same", location)
			}
			var manifest manifestJSON
			r.json(fmt.Sprintf("/v1/datasets/photos/epochs/4/batches/%d/manifest?%s", m, query), &manifest)
			for i, s := range manifest.Samples {
				if len(s.KeyBytes) > 0 {
					s.Key = string(s.KeyBytes)
				}
				if want := came[m*16+uint64(i)]; s.Key != want || s.Position != m*16+uint64(i) {
					t.Errorf("%s: got %q at %d in the manifest, want %q at %d", params.Shuffle, s.Key, s.Position, want, m*16+uint64(i))
				}
			}
		}
		most := 0
		for _, key := range r.order {
			var found struct {
				Occurrences []struct{ Epoch, Batch, Position uint64 }
			}
			r.json("/v1/datasets/photos/occurrences?epochs=4&"+query+"&key="+url.QueryEscape(key), &found)
			var got []uint64
			for _, o := range found.Occurrences {
				got = append(got, o.Position)
			}
			if diff := gocmp.Diff(listed[key], got); diff != "" {
				t.Errorf("%s: occurrences of %q differ from its positions:\n%s", params.Shuffle, key, diff)
			}
			most = max(most, len(got))
		}
		if most < 2 || len(listed) == 50 {
			t.Errorf("%s: got %d samples, each at most %d times, want some left out and some more than once", params.Shuffle, len(listed), most)
		}
	}
}

// TestHotSamplesAreMarked compares the number of draws that the source receives as hot with the
// draws of the snapshot's hot samples.
func TestHotSamplesAreMarked(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	snapshot := r.snapshot().Snapshot
	s, err := r.losses(importance.Config{Reader: r.store}).Open(t.Context(), snapshot, r.index.Generation(), r.index.First())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	order, samples := r.virtual(snapshot, shuffle.Params{Shuffle: shuffle.Full, Seed: 7}, 4)
	var want int64
	for at := range uint64(16) {
		n := samples[order.At(at)]
		chunk := r.index.ChunkOf(n)
		hot, err := s.Hot(t.Context(), chunk)
		if err != nil {
			t.Fatal(err)
		}
		if hot.Has(n - r.index.First()[chunk]) {
			want++
		}
	}
	before := r.source.hot.Load()
	r.do("GET", "/v1/datasets/photos/epochs/4/batches/0?shuffle=full&seed=7&importance="+snapshot)
	if got := r.source.hot.Load() - before; got != want || want == 0 || want == 16 {
		t.Errorf("got %d of 16 samples marked as hot, want %d, and neither none nor all", got, want)
	}
	before = r.source.hot.Load()
	r.do("GET", "/v1/datasets/photos/epochs/4/batches/0?shuffle=full&seed=7")
	if got := r.source.hot.Load() - before; got != 0 {
		t.Errorf("got %d samples marked as hot without importance, want none", got)
	}
}

func TestImportanceIsInThePlan(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	s := r.snapshot()
	var plan struct {
		Parameters struct{ Importance string }
		snapshotJSON
		Digest string `json:"order_digest"`
	}
	r.json("/v1/datasets/photos/epochs/1?importance="+s.Snapshot, &plan)
	if plan.Parameters.Importance != s.Snapshot || plan.Coverage != s.Coverage || plan.Effective != s.Effective || plan.HotSamples != 5 || plan.HotShare != .1 {
		t.Errorf("got %+v, want what the snapshot says, %+v", plan, s)
	}
	var plain struct {
		Digest string `json:"order_digest"`
	}
	a := r.do("GET", "/v1/datasets/photos/epochs/1")
	if err := json.Unmarshal(a.body, &plain); err != nil || plain.Digest == plan.Digest || bytes.Contains(a.body, []byte("coverage")) {
		t.Errorf("got %s without importance, want another order and no coverage", a.body)
	}
	// A second generation of weights is based on the first: a sample without a report retains
	// its weight.
	bodies := r.reports(1, "importance="+s.Snapshot, 1)
	r.accept(bodies[2])
	next := r.freeze(http.StatusCreated, 1, "importance="+s.Snapshot, "")
	if next.Base != s.Snapshot || next.Reported != 16 || !strings.Contains(next.Plan, "importance="+s.Snapshot) {
		t.Errorf("got %+v, want 16 positions, and the first snapshot as its base", next)
	}
}

func TestUnknownSnapshots(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	unknown := strings.Repeat("ab", 32)
	for _, path := range []string{
		"/epoch/0/batch/0?importance=" + unknown, "/v1/datasets/photos/epochs/0?importance=" + unknown, importancePath + "/" + unknown,
		"/v1/datasets/photos/occurrences?key=d0%2Fs00000&epochs=1&importance=" + unknown,
	} {
		checkProblem(t, r.do("GET", path), http.StatusNotFound, "not_found", false)
	}
	for _, path := range []string{"/epoch/0/batch/0?importance=abc", importancePath + "/" + strings.ToUpper(unknown), importancePath + "/" + unknown + "?x=1"} {
		checkProblem(t, r.do("GET", path), http.StatusBadRequest, "invalid_argument", false)
	}
	// A snapshot is found once it exists: the earlier failure was not cached.
	made := r.snapshot().Snapshot
	stored, _ := r.store.Bytes("data/.millrace/importance/" + made)
	path := "/epoch/0/batch/0?importance=" + made
	other := newRig(t, 50, 800, nil)
	checkProblem(t, other.do("GET", path), http.StatusNotFound, "not_found", false)
	other.store.Set("data/.millrace/importance/"+made, stored)
	if a := other.do("GET", path); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d once the snapshot is there, want 200: %s", a.StatusCode, a.body)
	}
	// A snapshot of other data, and a damaged one.
	strange := newRig(t, 20, 800, nil)
	strange.store.Set("data/.millrace/importance/"+made, stored)
	p := checkProblem(t, strange.do("GET", path), http.StatusBadRequest, "invalid_argument", false)
	for _, generation := range []string{r.index.Generation()[:12], strange.index.Generation()[:12]} {
		if !strings.Contains(p.Detail, generation) {
			t.Errorf("got %q, want generation %s named", p.Detail, generation)
		}
	}
	damaged := newRig(t, 50, 800, nil)
	broken := slices.Clone(stored)
	broken[len(broken)-5] ^= 1
	damaged.store.Set("data/.millrace/importance/"+made, broken)
	checkProblem(t, damaged.do("GET", path), http.StatusBadGateway, "store_inconsistent", false)
}

// TestReportsAreRefused checks that the refusal of a report lists all of its faults.
func TestReportsAreRefused(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	batch := r.do("HEAD", "/epoch/0/batch/0?rank=1&world_size=4").Header.Get("Content-Location") // 4 samples: positions 4 to 7
	other := strings.ReplaceAll(batch, r.index.Generation(), strings.Repeat("ab", 32))
	for body, want := range map[string]struct {
		status int
		code   string
		names  string
	}{
		``:      {400, "invalid_argument", ""},
		`[]`:    {400, "invalid_argument", ""},
		`{}`:    {400, "invalid_argument", ""},
		`{"x`:   {400, "invalid_argument", ""},
		`{} {}`: {400, "invalid_argument", ""},
		`{"url":"` + batch + `","losses":[1,2,3,NaN]}`:                                                {400, "invalid_argument", ""},
		`{"url":"` + batch + `","losses":[1,2,3,1e999]}`:                                              {400, "invalid_argument", ""},
		`{"url":"` + batch + `","losses":[1,2,3,4],"weights":[]}`:                                     {400, "invalid_argument", ""},
		`{"url":"` + batch + `","losses":[1,2,3,4],"batches":[]}`:                                     {400, "invalid_argument", ""},
		`{"url":"` + batch + `","losses":[1,2,3]}`:                                                    {400, "invalid_argument", "losses"},
		`{"url":"` + batch + `","losses":[]}`:                                                         {400, "invalid_argument", "losses"},
		`{"url":"` + batch + `","losses":[1,2],"positions":[3,16]}`:                                   {400, "invalid_argument", "losses"},
		`{"url":"` + batch + `","losses":[1,2],"positions":[3,3]}`:                                    {400, "invalid_argument", "losses"},
		`{"url":"` + batch + `","losses":[1,2],"positions":[3]}`:                                      {400, "invalid_argument", "losses"},
		`{"url":"/epoch/0/batch/0?seed=x&nope=1","losses":[]}`:                                        {400, "invalid_argument", "losses url.nope url.seed url.generation"},
		`{"url":"/v1/datasets/other/epochs/0/batches/0","losses":[1]}`:                                {400, "invalid_argument", "url"},
		`{"url":"/v1/datasets/photos/sample","losses":[1]}`:                                           {400, "invalid_argument", "url"},
		`{"url":"/v1/datasets/photos/epochs/0?generation=` + r.index.Generation() + `","losses":[1]}`: {400, "invalid_argument", "url"},
		`{"batches":[{"url":"` + batch + `","losses":[1]},{"url":"x","losses":[]}]}`:                  {400, "invalid_argument", "batches[0].losses batches[1].losses batches[1].url"},
		`{"url":"` + other + `","losses":[1,2,3,4]}`:                                                  {404, "not_found", ""},
		`{"url":"` + strings.Replace(batch, "batches/0", "batches/4", 1) + `","losses":[1,2,3,4]}`:    {404, "end_of_epoch", ""},
	} {
		p := checkProblem(t, r.post(importancePath, body), want.status, want.code, false)
		var names []string
		for _, f := range p.Faults {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != want.names {
			t.Errorf("%s: got faults %q, want %q: %s", body, got, want.names, p.Detail)
		}
	}
	// None of these losses were stored: correct losses cause no conflict, and different ones
	// do.
	r.accept(`{"url":"` + batch + `","losses":[1,2,3,4]}`)
	p := checkProblem(t, r.post(importancePath, `{"url":"`+batch+`","losses":[9],"positions":[5]}`), http.StatusConflict, "conflict", false)
	if want := "position 5: the stored loss is 2, the reported loss 9"; !strings.Contains(p.Detail, want) {
		t.Errorf("got %q, want %q", p.Detail, want)
	}
	checkProblem(t, r.post(importancePath+"?x=1", `{}`), http.StatusBadRequest, "invalid_argument", false)
}

func TestSnapshotsAreRefused(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	epoch := r.do("HEAD", "/v1/datasets/photos/epochs/0").Header.Get("Content-Location")
	path := importancePath + "/snapshots"
	checkProblem(t, r.post(path, `{"url":"`+epoch+`"}`), http.StatusNotFound, "not_found", false) // no losses were reported
	for body, names := range map[string]string{
		`{"url":"` + epoch + `","hot_share":0,"repeat":0}`: "hot_share repeat",
		`{"url":"` + epoch + `","hot_share":1.5}`:          "hot_share",
		`{"hot_share":-1}`: "url hot_share",
		`{"url":"/v1/datasets/photos/epochs/0?rank=1"}`:       "url.rank url.generation",
		`{"url":"` + epoch + `","repeat":-1}`:                 "",
		`{"url":"` + epoch + `","hot":1}`:                     "",
		`{"url":"` + epoch + `&importance=x"}`:                "url.importance",
		`{"url":"` + epoch + `","hot_share":1,"repeat":2000}`: "",
	} {
		p := checkProblem(t, r.post(path, body), http.StatusBadRequest, "invalid_argument", false)
		var got []string
		for _, f := range p.Faults {
			got = append(got, f.Name)
		}
		if strings.Join(got, " ") != names {
			t.Errorf("%s: got faults %v, want %s: %s", body, got, names, p.Detail)
		}
	}
}

// TestReadOnlyBucket: with a read-only bucket the response says whether the gateway stored the
// report in its local log.
func TestReadOnlyBucket(t *testing.T) {
	for dir, kept := range map[string]bool{t.TempDir(): true, "": false} {
		r := newRig(t, 50, 800, nil)
		body := r.reports(0, "seed=3", 1)[0]
		sealed := newRig(t, 50, 800, func(c *gateway.Config) {
			l, err := importance.New(importance.Config{Reader: r.store, Prefix: "data/", Dir: dir, Location: "s3://b/data"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			c.Datasets[0].Importance = l
		})
		a := sealed.post(importancePath, body)
		p := checkProblem(t, a, http.StatusForbidden, "read_only", false)
		if strings.Contains(p.Detail, "in the local log") != kept || !bytes.Contains(a.body, fmt.Appendf(nil, `"kept":%v`, kept)) {
			t.Errorf("got %s, want kept: %v", a.body, kept)
		}
		epoch := r.do("HEAD", "/v1/datasets/photos/epochs/0?seed=3").Header.Get("Content-Location")
		checkProblem(t, sealed.post(importancePath+"/snapshots", `{"url":"`+epoch+`"}`), http.StatusForbidden, "read_only", false)
	}
}

// TestLossesWeighTheSamplesTheyAreOf compares a snapshot with the reference. Losses are ranked
// within each global batch, and the highest position of a sample counts. The first epoch is plain
// with a padded last batch. The second epoch draws by the first snapshot.
func TestLossesWeighTheSamplesTheyAreOf(t *testing.T) {
	r := newRig(t, 50, 800, nil)
	params := shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: 3}
	plan, err := shuffle.NewPlan(params, r.index.First())
	if err != nil {
		t.Fatal(err)
	}
	weights := slices.Repeat([]uint32{importance.Weight(7)}, 50) // the median of 16
	query := "seed=3&tail=pad"
	order, samples := plan.Epoch(0), make([]uint64, 50)
	for i := range samples {
		samples[i] = uint64(i)
	}
	for epoch := range 2 {
		for _, body := range r.reports(epoch, query, 1) {
			r.accept(body)
		}
		snapshot := r.freeze(http.StatusCreated, epoch, query, `,"repeat":1`).Snapshot
		for m := range uint64(4) {
			positions := []uint64{}
			for p := m * 16; p < (m+1)*16; p++ {
				positions = append(positions, p)
			}
			ranked := slices.Clone(positions)
			slices.SortStableFunc(ranked, func(a, b uint64) int { return cmp.Compare(lossOf(a), lossOf(b)) })
			for _, p := range positions {
				weights[samples[order.At(p%50)]] = importance.Weight(uint64(slices.Index(ranked, p)))
			}
		}
		s, err := r.losses(importance.Config{Reader: r.store}).Open(t.Context(), snapshot, r.index.Generation(), r.index.First())
		if err != nil {
			t.Fatal(err)
		}
		var got []uint32
		for chunk := range r.index.Chunks() {
			w, err := s.Weights(t.Context(), chunk)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, w...)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if diff := gocmp.Diff(weights, got); diff != "" {
			t.Errorf("epoch %d: weights differ from the reference:\n%s", epoch, diff)
		}
		order, samples = r.virtual(snapshot, params, 1)
		query = "seed=3&tail=pad&importance=" + snapshot
	}
}
