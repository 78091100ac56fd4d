package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// draw draws a dataset and a correct history of a few jobs that read it.
func draw(t *rapid.T) (toy, events) {
	d := toy{samples: rapid.IntRange(2, 40).Draw(t, "samples"), unmixed: rapid.Bool().Draw(t, "unmixed")}
	d.batch = rapid.IntRange(2, max(2, d.samples/2)).Draw(t, "batch")
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "errors"), 1))
	var jobs []events
	for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		generation := fmt.Sprint("g", rapid.IntRange(1, 2).Draw(t, "generation"))
		epoch := rapid.IntRange(0, 2).Draw(t, "epoch")
		var parts []part
		for from := 0; from < d.batches(); from = parts[len(parts)-1].until {
			parts = append(parts, part{from, rapid.IntRange(from+1, d.batches()).Draw(t, "until"), rapid.IntRange(1, 4).Draw(t, "world")})
		}
		var h events
		d.read(&h, fmt.Sprint("job", i), generation, epoch, random, parts...)
		jobs = append(jobs, h)
	}
	var all events
	for len(jobs) > 0 { // the jobs run concurrently
		i := random.IntN(len(jobs))
		all.add(jobs[i][0])
		if jobs[i] = jobs[i][1:]; len(jobs[i]) == 0 {
			jobs = slices.Delete(jobs, i, i+1)
		}
	}
	return d, all
}

// corrupt changes one event, and describes the change.
func corrupt(t *rapid.T, d toy, h *events) string {
	var full []int // events that add bytes to an epoch
	for i, e := range *h {
		if e.Outcome == Whole && e.Job != "" && e.Length > 0 {
			full = append(full, i)
		}
	}
	n := rapid.SampledFrom(full).Draw(t, "event")
	e := &(*h)[n]
	kinds := map[string]func(){
		"flip": func() { flip(rapid.IntRange(0, int(e.Length)-1).Draw(t, "byte"))(e) },
		"cut":  func() { *e = e.WithBody(e.body[:rapid.IntRange(0, int(e.Length)-1).Draw(t, "length")]) },
		"grow": func() { *e = e.WithBody(append(slices.Clone(e.body), 'x')) },
		"swap": func() {
			other := d.good("", "", (*h)[rapid.SampledFrom(full).Draw(t, "other")].URL)
			if other.SHA256 == e.SHA256 {
				other = other.WithBody(append(other.body, 'x'))
			}
			*e = e.WithBody(other.body)
		},
		"ETag":       func() { h.inject(len(*h)-1, d.good("late", "", e.URL)); (*h)[len(*h)-1].ETag = "new" },
		"stale":      func() { e.Generation = "g0" },
		"twice":      func() { h.inject(n, d.good("again", e.Job, e.URL)) },
		"lost":       func() { *h = slices.Delete(*h, n, n+1) },
		"misnamed":   func() { e.Samples = append(slices.Clone(e.Samples), "stranger") },
		"wrong URL":  func() { e.URL = d.url("g3", 9, 0, 0, 1) },
		"broken off": func() { e.Outcome = Broken },
	}
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	name := rapid.SampledFrom(names).Draw(t, "kind")
	kinds[name]()
	return name
}

// TestLog_AcceptsRandomHistoriesAndFindsAnyCorruption draws correct histories, and corrupts one
// event of each.
func TestLog_AcceptsRandomHistoriesAndFindsAnyCorruption(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, h := draw(t)
		for _, plan := range []Plan{nil, d} {
			if err := h.check(plan); err != nil {
				t.Fatalf("a good history: %v", err)
			}
		}
		how := corrupt(t, d, &h)
		if h.check(d) == nil {
			t.Fatalf("%s: not found", how)
		}
	})
}
