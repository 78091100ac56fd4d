package bottleneck

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rank is rank 0 or 1 of two of one job.
func rank(number uint64, waiting float64, think time.Duration) Rank {
	return Rank{Dataset: "photos", Rank: number, WorldSize: 2, Waiting: waiting, Think: think}
}

const (
	read      = `millrace_http_phase_seconds_total{dataset="photos",phase="read"}`
	fromStore = `millrace_tier_wait_seconds_total{dataset="photos",tier="store"}`
)

// situations are what the counters have risen by in ten seconds, and who reads.
func situations() map[string]Look {
	waiting := []Rank{rank(0, .9, time.Millisecond), rank(1, .5, time.Millisecond)}
	slow := []Rank{rank(0, .1, 5*time.Millisecond), rank(1, .01, 500*time.Millisecond)}
	slow[1].Behind = 20
	idle := rank(0, .9, 0)
	idle.Idle = time.Minute
	return map[string]Look{
		"nobody":      {Ranks: []Rank{idle}},
		"memory":      {Ranks: waiting, Counters: map[string]float64{"millrace_budget_refused_total": 3, "millrace_budget_bytes": 32e6, "millrace_budget_pinned_bytes": 31e6}},
		"store-fails": {Ranks: waiting, Counters: map[string]float64{"millrace_store_errors_throttled_total": 7, "millrace_store_requests_total": 40}},
		"peers":       {Ranks: waiting, Counters: map[string]float64{"millrace_peer_failed_total": 3, "millrace_peer_reads_total": 40}},
		"rank":        {Ranks: slow},
		"readers":     {Ranks: []Rank{rank(0, .1, time.Second), rank(1, .2, 2*time.Second)}},
		"cache":       {Ranks: waiting, Counters: map[string]float64{"millrace_cache_expected_evictions_total": 20, "millrace_cache_loads_total": 100, read: 9, fromStore: 9}},
		"store":       {Ranks: waiting, Counters: map[string]float64{"millrace_store_read_bytes_total": 480e6, "millrace_store_reads_total": 60, read: 9, fromStore: 9}},
		"disk": {Ranks: waiting, Counters: map[string]float64{
			"millrace_disk_hit_bytes_total": 480e6, read: 9, strings.Replace(fromStore, "store", "disk", 1): 9, fromStore: 1,
		}},
		"network":  {Ranks: waiting, Counters: map[string]float64{strings.Replace(read, "read", "send", 1): 9, read: 2, `millrace_http_response_bytes_total{dataset="photos",route="/"}`: 1e9}},
		"planning": {Ranks: waiting, Counters: map[string]float64{strings.Replace(read, "read", "plan", 1): 9, read: 2}},
		"gateway":  {Ranks: waiting, Counters: map[string]float64{"millrace_readers_samples_per_second": 1e5, read: 9, strings.Replace(fromStore, "store", "memory", 1): 9}},
	}
}

// TestEachRuleHasItsSituation, and in that situation no other one counts. What happened before is not counted.
func TestEachRuleHasItsSituation(t *testing.T) {
	said := map[string]bool{}
	for want, now := range situations() {
		now.At = time.Unix(1000, 0)
		before := Look{At: now.At.Add(-10 * time.Second), Counters: map[string]float64{}}
		later := Look{At: now.At, Ranks: now.Ranks, Counters: map[string]float64{}}
		for _, of := range situations() {
			for name := range of.Counters {
				if strings.HasSuffix(name, "_total") || strings.Contains(name, "{") {
					before.Counters[name], later.Counters[name] = 1e6, 1e6
				}
			}
		}
		for name, value := range now.Counters {
			later.Counters[name] += value
		}
		got := find(before, later)
		if got.Code != want || got.Seconds != 10 || !strings.HasSuffix(got.Sentence, ".") || strings.Contains(got.Sentence, "%!") {
			t.Errorf("%s: got %+v", want, got)
		}
		said[got.Code] = true
	}
	for _, r := range rules() {
		if !said[r.code] {
			t.Errorf("no situation is for %q", r.code)
		}
	}
}

// TestFigures: a sentence has the figures of the time that was looked at, and names the rank.
func TestFigures(t *testing.T) {
	for code, want := range map[string]string{
		"store":  "The store limits: it gives 48 MB/s in 60 reads. Rank 0 of 2 of photos waits 90 % of its time for bytes.",
		"rank":   "Rank 1 of 2 of photos is slow: it takes 500ms between two batches, others of its job 5ms, and waits 1 % of its time for bytes; it is 20 batches behind.",
		"cache":  "20 of 100 chunks were let go",
		"memory": "31 MB of 32 MB are held",
	} {
		now := situations()[code]
		now.At = time.Unix(10, 0)
		if got := find(Look{At: time.Unix(0, 0)}, now); !strings.Contains(got.Sentence, want) {
			t.Errorf("%s: got %q, want %q in it", code, got.Sentence, want)
		}
	}
}

// TestWhatIsCompared: with the last look that is five seconds older, with the oldest one where there is none, and at first with the start.
func TestWhatIsCompared(t *testing.T) {
	var h History
	began := time.Unix(0, 0)
	for _, step := range []struct{ at, want float64 }{
		{2, 2}, {3, 1}, {3.5, 1.5}, {6.9, 4.9}, {7, 5}, {8, 5}, {8.1, 5.1}, {9.4, 6.4}, {14.5, 5.1}, {300, 285.5}, {301, 286.5}, {305, 5},
	} {
		at := began.Add(time.Duration(step.at * float64(time.Second)))
		if got := h.Find(Look{At: at, Counters: map[string]float64{}}, began); fmt.Sprintf("%.1f", got.Seconds) != fmt.Sprintf("%.1f", step.want) {
			t.Errorf("at %v s: got %.2f s, want %v", step.at, got.Seconds, step.want)
		}
		if len(h.looks) > 7 {
			t.Errorf("got %d looks kept", len(h.looks))
		}
	}
}
