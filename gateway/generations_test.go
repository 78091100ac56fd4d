package gateway_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/shuffle"
)

// question is a request about a generation, which its URL or body contains.
type question struct{ method, path, body string }

// questions returns requests about the initial generation of g, at least one for each route with a
// generation.
func (g *generations) questions() []question {
	g.t.Helper()
	g.source.warm = func(at shuffle.Cursor) (batch.Warmed, error) {
		return batch.Warmed{Next: at.First + 16, Chunks: 1, Bytes: 800}, nil
	}
	old := "generation=" + g.older.Index.Generation()
	snapshot := g.snapshot().Snapshot
	split := g.split("train=3,val=1", "")
	bad := g.quarantine(1, 5)
	all := []question{
		{"POST", "/v1/datasets/photos/warm?epoch=2&from=16&" + old, ""},
		{"GET", "/v1/datasets/photos/epochs/0/samples?at=3,1&" + old, ""},
		{"GET", "/v1/datasets/photos/epochs/0/samples/manifest?at=3,1&" + old, ""},
		{"GET", "/v1/datasets/photos/sample?key=d0%2Fs00001&" + old, ""},
		{"GET", "/v1/datasets/photos/sample?key=d0%2Fs00001&format=framed&" + old, ""},
		{"GET", "/v1/datasets/photos/index?" + old, ""},
		{"GET", importancePath + "/" + snapshot + "?" + old, ""},
	}
	for _, plan := range []string{
		"", "&shuffle=full&seed=9", "&tail=pad&batch_size=7", "&rank=1&world_size=3", "&rank=1&world_size=3&balance=bytes",
		"&shuffle=slot&window=4&share=locality&rank=1&world_size=2", "&importance=" + snapshot, "&subset=train", "&subset=" + split.Digest + ":val&batch_size=4",
		"&quarantine=" + bad, "&subset=train&quarantine=" + bad,
	} {
		query := old + plan
		for _, path := range []string{
			"/epoch/3/batch/1?", "/epoch/3/batches?count=2&", "/v1/datasets/photos/epochs/3?", "/v1/datasets/photos/epochs/3/batches?from=1&",
			"/v1/datasets/photos/epochs/3/batches/1?", "/v1/datasets/photos/epochs/3/batches/1?format=arrow&", "/v1/datasets/photos/epochs/3/batches/1/manifest?",
			"/v1/datasets/photos/epochs/3/mds/index.json?", "/v1/datasets/photos/epochs/3/mds/shard.00001.mds?", "/v1/datasets/photos/epochs/3/wds/000001.tar?",
			"/v1/datasets/photos/epochs/3/batches/99?",
		} {
			all = append(all, question{"GET", path + query, ""})
		}
		for _, file := range []string{"mds/%s/index.json", "mds/%s/shard.00000.mds", "wds/%s/index.json", "wds/%s/000000.tar"} {
			all = append(all, question{"GET", "/v1/datasets/photos/epochs/3/" + fmt.Sprintf(file, query), ""})
		}
		if !strings.Contains(plan, "rank=") {
			all = append(all, question{"GET", "/v1/datasets/photos/epochs/3/draws?" + query, ""})
			all = append(all, question{"GET", "/v1/datasets/photos/occurrences?key=d0%2Fs00001&epochs=0-9&" + query, ""})
		}
	}
	for _, body := range g.reports(1, old+"&seed=3", 2) {
		all = append(all, question{"POST", importancePath, body})
	}
	const even = `{"subset":"samples:0,2,4"}`
	g.post(subsetsPath+"?"+old, even)
	all = append(all, question{"POST", subsetsPath + "?" + old, even})
	const schedule = `{"schedule":[[32,1]]}`
	g.post(schedulesPath, schedule)
	all = append(all, question{"GET", schedulesPath, ""}, question{"POST", schedulesPath, schedule})
	epoch := g.do("HEAD", "/v1/datasets/photos/epochs/0?seed=3&"+old).Header.Get("Content-Location")
	return append(all, question{"POST", importancePath + "/snapshots", fmt.Sprintf(`{"url":%q}`, epoch)})
}

// said returns the gateway's responses by request: status, headers and body.
func (r *rig) said(all []question) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	for _, q := range all {
		var sent io.Reader
		if q.body != "" {
			sent = strings.NewReader(q.body)
		}
		a, err := r.try(q.method, q.path, sent, "X-Request-Id: the-same")
		if err != nil {
			r.t.Fatal(err)
		}
		for _, name := range []string{"Date", "Server-Timing"} {
			a.Header.Del(name)
		}
		var b strings.Builder
		fmt.Fprintln(&b, a.StatusCode)
		for _, name := range slices.Sorted(maps.Keys(a.Header)) {
			fmt.Fprintln(&b, name, a.Header[name])
		}
		fmt.Fprintf(&b, "%q", a.body)
		out[q.method+" "+q.path+" "+q.body] = b.String()
	}
	return out
}

// TestAnOlderGenerationAnswersAsItDid: after a generation is replaced, every route sends the same
// responses for it as when it was current. This holds while it is open, and when it is opened again
// from its index.
func TestAnOlderGenerationAnswersAsItDid(t *testing.T) {
	g := newGenerations(t, nil)
	g.newer.Importance, g.newer.Selection = g.losses(importance.Config{Reader: g.store, Writer: g.store}), g.selections()
	all := g.questions()
	want := g.said(all)
	for q, answer := range want {
		if !strings.HasPrefix(answer, "200") && !strings.Contains(q, "/99?") {
			t.Fatalf("%s: got %.300s, want 200 while the generation is current", q, answer)
		}
	}
	for _, row := range g.gateway.RouteTable(false) {
		about := strings.HasPrefix(row.Pattern, "/epoch/") || strings.HasPrefix(row.Pattern, "/v1/datasets/{dataset}/")
		path := regexp.MustCompile("^" + regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(row.Pattern, "[^/?]+") + `(\?|$)`)
		if about && !slices.ContainsFunc(all, func(q question) bool { return q.method == row.Method && path.MatchString(q.path) }) {
			t.Errorf("%s %s: got no question about an older generation, want one", row.Method, row.Pattern)
		}
	}
	if err := g.gateway.Serve([]gateway.Dataset{g.newer}, nil); err != nil {
		t.Fatal(err)
	}
	if got := g.do("GET", "/epoch/3/batch/1").Header.Get("Millrace-Generation"); got != g.newer.Index.Generation() {
		t.Fatalf("got generation %.12s without a name, want the newer one", got)
	}
	if diff := gocmp.Diff(want, g.said(all)); diff != "" {
		t.Errorf("beside a newer generation answers differ:\n%s", diff)
	}
	grown := newRigOf(t, g, g.newer)
	if diff := gocmp.Diff(want, grown.said(all)); diff != "" {
		t.Errorf("opened from its index the generation gives other answers:\n%s", diff)
	}
	if len(g.opened) != 1 {
		t.Errorf("opened %d times, want once", len(g.opened))
	}
	old := g.older.Index.Generation()
	short := slices.Clone(all)
	for i, q := range short {
		short[i].path, short[i].body = strings.ReplaceAll(q.path, old, old[:32]), strings.ReplaceAll(q.body, old, old[:32])
		k := q.method + " " + q.path + " " + q.body
		answer := want[k]
		delete(want, k)
		want[strings.ReplaceAll(k, old, old[:32])] = answer
	}
	if diff := gocmp.Diff(want, grown.said(short)); diff != "" {
		t.Errorf("the first 32 digits of the generation give other answers:\n%s", diff)
	}
}

// TestReportsNameTheirGeneration: losses belong to the generation in their URLs, and all reports of
// a request must have the same generation.
func TestReportsNameTheirGeneration(t *testing.T) {
	g := newGenerations(t, nil)
	g.newer.Importance = g.losses(importance.Config{Reader: g.store, Writer: g.store})
	old, fresh := g.older.Index.Generation(), g.newer.Index.Generation()
	if err := g.gateway.Serve([]gateway.Dataset{g.newer}, nil); err != nil {
		t.Fatal(err)
	}
	before, now := g.reports(0, "seed=3&generation="+old, 1), g.reports(0, "seed=3", 1)
	p := checkProblem(t, g.post(importancePath, `{"batches":[`+before[0]+","+now[1]+"]}"), http.StatusBadRequest, "invalid_argument", false)
	if !strings.Contains(fmt.Sprint(p), "batches[1].url.generation") {
		t.Errorf("got %+v, want the second batch's generation named", p)
	}
	for _, body := range slices.Concat(before, now) {
		g.accept(body)
	}
	for generation, query := range map[string]string{old: "seed=3&generation=" + old, fresh: "seed=3"} {
		made := g.freeze(http.StatusCreated, 0, query, "")
		if made.Generation != generation || !strings.Contains(made.Plan, generation) || made.Reported != made.Samples {
			t.Errorf("got %+v, want the losses of generation %.12s", made, generation)
		}
		var described snapshotJSON
		if g.json(importancePath+"/"+made.Snapshot+"?generation="+generation, &described); described != made {
			t.Errorf("got %+v, want %+v", described, made)
		}
	}
	gone := strings.ReplaceAll(before[0], old, goneGeneration)
	for _, path := range []string{importancePath, importancePath + "/snapshots"} {
		body := gone
		if path != importancePath {
			body = `{"url":"/v1/datasets/photos/epochs/0?generation=` + goneGeneration + `"}`
		}
		checkProblem(t, g.post(path, body), http.StatusNotFound, "generation_gone", false)
	}
	alone := newRig(t, 60, 800, nil) // this gateway opens no older generations
	checkProblem(t, alone.post(importancePath, gone), http.StatusNotFound, "not_found", false)
}
