package bottleneck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/shuffle"
)

// period is the time between the two snapshots of a situation, in seconds.
const period = 10

// rank is one of two ranks of a job. It waits for the given shares of the period. Otherwise it
// computes for think between two batches.
func rank(number uint64, planning, bytes, sending float64, think time.Duration) stats.Reader {
	batches := uint64(period * (1 - planning - bytes - sending) / think.Seconds())
	return stats.Reader{
		Job: stats.Job{Dataset: "photos", Params: shuffle.Params{Shuffle: "window", Window: 64}, BatchSize: 32, WorldSize: 2}, Rank: number, ThinkMS: 1000 * think.Seconds(), SamplesPerSecond: 100,
		Spent: stats.RankTimes{All: period, Planning: period * planning, Bytes: period * bytes, Sending: period * sending, Pauses: float64(batches) * think.Seconds(), Paused: batches},
	}
}

func phase(name string) string {
	return `millrace_http_phase_seconds_total{dataset="photos",phase="` + name + `"}`
}

func tier(name string) string {
	return `millrace_tier_wait_seconds_total{dataset="photos",tier="` + name + `"}`
}

const (
	fast   = 10 * time.Millisecond
	sent   = `millrace_http_response_bytes_total{dataset="photos",route="/"}`
	stored = `millrace_store_read_bytes_total{dataset="photos"}`
	open   = `millrace_store_reads_open{dataset="photos"}`
)

// situations returns for each rule a snapshot in which it applies: the increase of the counters in
// the period, and the ranks.
func situations() map[string]Snapshot {
	waiting := []stats.Reader{rank(0, .02, .8, .08, fast), rank(1, 0, .5, 0, fast)}
	slow := []stats.Reader{rank(0, 0, .1, 0, 5*time.Millisecond), rank(1, 0, .01, 0, 500*time.Millisecond)}
	slow[1].BatchesBehind = 20
	idle := rank(0, 0, 0, 0, fast)
	idle.IdleSeconds = 60
	planned, taken := rank(0, .8, .1, .05, fast), rank(0, .1, .1, .4, fast)
	return map[string]Snapshot{
		"nobody":      {Ranks: []stats.Reader{idle}},
		"memory":      {Ranks: waiting, Counters: map[string]float64{"millrace_budget_refused_total": 3, "millrace_budget_bytes": 32e6, "millrace_budget_pinned_bytes": 31e6}},
		"store-fails": {Ranks: waiting, Counters: map[string]float64{"millrace_store_errors_throttled_total": 7, "millrace_store_requests_total": 40}},
		"peers":       {Ranks: waiting, Counters: map[string]float64{"millrace_peer_failed_total": 3, "millrace_peer_reads_total": 40, "millrace_cluster_members_ejected": 1}},
		"rank":        {Ranks: slow},
		"readers":     {Ranks: []stats.Reader{rank(0, .03, .1, .03, time.Second), rank(1, 0, .2, 0, 2*time.Second)}},
		"cache":       {Ranks: waiting, Counters: map[string]float64{"millrace_cache_expected_evictions_total": 20, "millrace_cache_loads_total": 100, tier("store"): 9}},
		"store": {Ranks: waiting, Counters: map[string]float64{
			stored: 480e6, `millrace_store_reads_total{dataset="photos"}`: 60, open: 4, tier("store"): 9, "millrace_budget_bytes": 64 << 20,
		}},
		"disk":     {Ranks: waiting, Counters: map[string]float64{"millrace_disk_hit_bytes_total": 480e6, tier("disk"): 9, tier("store"): 1}},
		"peer":     {Ranks: waiting, Counters: map[string]float64{tier("peer"): 9, tier("store"): 1}},
		"network":  {Ranks: []stats.Reader{taken}, Counters: map[string]float64{phase("send"): 9, sent: 1e9, Processor: .5}},
		"planning": {Ranks: []stats.Reader{planned}, Counters: map[string]float64{phase("locate"): 7, phase("plan"): 1, phase("edge"): 2}},
		"gateway":  {Ranks: []stats.Reader{taken}, Counters: map[string]float64{"millrace_readers_samples_per_second": 1e5, phase("send"): 9, sent: 1e9, Processor: 4}},
	}
}

// TestEachRuleHasItsSituation: in each situation exactly one rule applies. Counts before the period
// are ignored.
func TestEachRuleHasItsSituation(t *testing.T) {
	said := map[string]bool{}
	for want, now := range situations() {
		now.At = time.Unix(1000, 0)
		before := Snapshot{At: now.At.Add(-period * time.Second), Counters: map[string]float64{}}
		later := Snapshot{At: now.At, Counters: map[string]float64{}}
		for _, r := range now.Ranks {
			earlier := r
			earlier.Spent = stats.RankTimes{All: 1e4, Planning: 3e3, Bytes: 3e3, Sending: 3e3, Pauses: 3e3, Paused: 7}
			before.Ranks = append(before.Ranks, earlier)
			s := r.Spent
			r.Spent = stats.RankTimes{All: 1e4 + s.All, Planning: 3e3 + s.Planning, Bytes: 3e3 + s.Bytes, Sending: 3e3 + s.Sending, Pauses: 3e3 + s.Pauses, Paused: 7 + s.Paused}
			later.Ranks = append(later.Ranks, r)
		}
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
		got := find(between(before, later))
		if got.Code != want || got.Seconds != period || !strings.HasSuffix(got.Sentence, ".") || strings.Contains(got.Sentence, "%!") {
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

// TestFigures: a sentence contains the figures of the observed period and the rank. Its advice is a
// valid command.
func TestFigures(t *testing.T) {
	for code, want := range map[string]string{
		"store":    "The store is the bottleneck: 48 MB/s in 60 reads, 4 open. Rank 0 of 2 of photos waits 80 % of its time for data.",
		"rank":     "Rank 1 of 2 of photos is slow: it takes 500ms between batches, the other ranks of its job take 5ms. It waits 1 % of its time, and is 20 batches behind.",
		"cache":    "it evicted 20 chunks before their readers came, and loaded 100. Rank 0 of 2 of photos waits 80 %",
		"readers":  "waits for it more than 20 % of its time. The rest is between batches: the training step, or decoding and transforms. Rank 1 of 2 of photos takes longest, 2s.",
		"peers":    "3 of 40 requests failed, and 1 gateway was ejected.",
		"memory":   "hold 31 MB of 32 MB",
		"planning": "the phase locate takes 70 % of the time of all requests. Rank 0 of 2 of photos waits 95 % of its time.",
		"network":  "100 MB/s sent. Rank 0 of 2 of photos waits 60 % of its time",
	} {
		now := situations()[code]
		now.At = time.Unix(period, 0)
		now.Address = func(string) string { return "file:///my data" }
		got := find(between(Snapshot{At: time.Unix(0, 0)}, now))
		if !strings.Contains(got.Sentence, want) {
			t.Errorf("%s: got %q, want %q in it", code, got.Sentence, want)
		}
		const line = "`millrace simulate 'file:///my data' --world-size 2 --rate 1200/s --batch-size 32 --shuffle window --window 64 " +
			"--cache-size 64MiB,128MiB,256MiB --disk-cache-size 0,1024MiB --store-bandwidth 48.0MB/s`"
		if code == "store" && !strings.Contains(got.Do, line) {
			t.Errorf("got %q, want %q in it", got.Do, line)
		}
	}
}

// TestFewChunks: without memory for chunks, few chunks are loaded, and samples are read
// individually. In this case a single early eviction is enough to name the cache, and only in this
// case.
func TestFewChunks(t *testing.T) {
	for _, c := range []struct {
		unused, loads, ranges float64
		want                  string
	}{{2, 3, 90e6, "cache"}, {1, 1, 60e6, "cache"}, {2, 3, 40e6, "store"}, {0, 0, 90e6, "store"}, {1, 20, 90e6, "store"}} {
		now := situations()["store"]
		now.At = time.Unix(period, 0)
		now.Counters[stored], now.Counters["millrace_store_range_bytes_total"] = 100e6, c.ranges
		now.Counters["millrace_cache_expected_evictions_total"], now.Counters["millrace_cache_loads_total"] = c.unused, c.loads
		if got := find(between(Snapshot{At: time.Unix(0, 0)}, now)); got.Code != c.want {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
}

// TestFind_BlamesOpenReads: while no response ends, open reads of the store explain ranks that wait, and
// without them the other gateways. The limit of a dataset's address is named only if its reads reach it.
func TestFind_BlamesOpenReads(t *testing.T) {
	const limit = `millrace_store_bandwidth_limit_bytes{dataset="photos"}`
	for name, c := range map[string]struct {
		counters   map[string]float64
		code, says string
	}{
		"open reads":             {map[string]float64{open: 3}, "store", "0 MB/s in 0 reads, 3 open. Rank 0 of 2 of photos waits 100 %"},
		"short waits for memory": {map[string]float64{open: 3, tier("memory"): .1}, "store", "3 open"},
		"waits for memory":       {map[string]float64{open: 3, tier("memory"): 8}, "gateway", "samples/s"},
		"at the limit":           {map[string]float64{open: 3, limit: 2e5, stored: 19e5}, "store", "The address of photos limits it to 0.2 MB/s."},
		"far below the limit":    {map[string]float64{open: 3, limit: 2e5, stored: 9e5}, "store", "for data."},
		"other gateways":         {map[string]float64{"millrace_cluster_members": 2}, "peer", "other gateways"},
	} {
		now := Snapshot{At: time.Unix(period, 0), Ranks: []stats.Reader{rank(0, 0, 1, 0, fast)}, Counters: c.counters}
		if got := find(between(Snapshot{At: time.Unix(0, 0)}, now)); got.Code != c.code || !strings.Contains(got.Sentence, c.says) {
			t.Errorf("%s: got %+v, want %s with %q", name, got, c.code, c.says)
		}
	}
}

// TestRanksThatStandStill: a stopped rank counts as slow for a minute, and no longer once it
// continues. A job that has ended is not reported if another one reads. A rank that waits for a
// response is reading, however old the request is.
func TestRanksThatStandStill(t *testing.T) {
	at := time.Unix(1000, 0)
	reads, stopped, ended := rank(0, 0, .1, 0, fast), rank(1, 0, 0, 0, fast), rank(0, 0, 0, 0, fast)
	ended.Seed, ended.IdleSeconds, ended.Spent = 7, 40, stats.RankTimes{}
	before := Snapshot{At: at.Add(-period * time.Second), Ranks: []stats.Reader{stopped}}
	stopped.Spent.All += period
	stopped.BatchesBehind, stopped.IdleSeconds = 400, 12
	got := find(between(before, Snapshot{At: at, Ranks: []stats.Reader{reads, stopped}}))
	if got.Code != "rank" || !strings.Contains(got.Sentence, "requested nothing for 12s") {
		t.Errorf("a rank that stopped: got %+v", got)
	}
	pauses := reads
	pauses.IdleSeconds = 12
	if got := find(between(before, Snapshot{At: at, Ranks: []stats.Reader{pauses, stopped}})); got.Code != "readers" {
		t.Errorf("a job that has stopped: got %+v, want readers", got)
	}
	before = Snapshot{At: before.At, Ranks: []stats.Reader{stopped}}
	stopped.IdleSeconds, stopped.ThinkMS = 0, 1000
	stopped.Spent.All, stopped.Spent.Pauses, stopped.Spent.Paused = stopped.Spent.All+period, stopped.Spent.Pauses+period, stopped.Spent.Paused+900
	if got := find(between(before, Snapshot{At: at, Ranks: []stats.Reader{reads, stopped}})); got.Code != "readers" {
		t.Errorf("a rank that goes on: got %+v, want readers", got)
	}
	if got := find(between(Snapshot{At: before.At}, Snapshot{At: at, Ranks: []stats.Reader{ended, reads}})); got.Code != "readers" || !strings.Contains(got.Sentence, "10ms") {
		t.Errorf("beside a job that has ended: got %+v, want readers, and 10ms", got)
	}
	ended.ThinkMS = 1000
	if got := find(between(Snapshot{At: at.Add(-5 * time.Minute)}, Snapshot{At: at, Ranks: []stats.Reader{ended, reads}})); !strings.Contains(got.Sentence, "10ms") {
		t.Errorf("compared with a time before that job ended: got %+v, want 10ms", got)
	}
	waits := rank(0, 0, 1, 0, fast)
	waits.IdleSeconds = 120
	if got := find(between(Snapshot{At: before.At}, Snapshot{At: at, Ranks: []stats.Reader{waits}, Counters: map[string]float64{tier("store"): 1}})); got.Code != "store" {
		t.Errorf("a rank that waits for two minutes: got %+v, want store", got)
	}
}

// TestRanksInStep: in a synchronous job all ranks take the same time between two batches as the
// slowest one. The others have prefetched, so the last rank is the slowest.
func TestRanksInStep(t *testing.T) {
	for name, c := range map[string]struct {
		behind []uint64 // batches behind, of each rank
		want   string
	}{
		"the last of three":         {[]uint64{0, 9, 1}, "Rank 1 of 2 of photos is the last to request batches, 8 after the others"},
		"the first of three":        {[]uint64{9, 1, 0}, "Rank 0 of 2 of photos is the last to request batches, 8 after the others"},
		"two are last":              {[]uint64{9, 9, 0}, "takes longest"},
		"two are last, and one not": {[]uint64{0, 9, 9}, "takes longest"},
		"all alike":                 {[]uint64{1, 0, 1}, "takes longest"},
		"one alone":                 {[]uint64{9}, "takes longest"},
	} {
		var all []stats.Reader
		for i, behind := range c.behind {
			r := rank(uint64(i), 0, .01, 0, 300*time.Millisecond)
			r.BatchesBehind = behind
			all = append(all, r)
		}
		if got := find(between(Snapshot{At: time.Unix(0, 0)}, Snapshot{At: time.Unix(period, 0), Ranks: all})); got.Code != "readers" || !strings.Contains(got.Sentence, c.want) {
			t.Errorf("%s: got %+v, want %q", name, got, c.want)
		}
	}
}

// TestManyRanks: a slow rank is found among the maximum number of ranks that a gateway tracks.
func TestManyRanks(t *testing.T) {
	var all []stats.Reader
	for i := range uint64(4096) {
		all = append(all, rank(i, 0, .1, 0, fast))
	}
	all[4000].BatchesBehind, all[4000].Spent.Paused = 20, 3
	if got := find(between(Snapshot{At: time.Unix(0, 0)}, Snapshot{At: time.Unix(period, 0), Ranks: all})); got.Code != "rank" || !strings.Contains(got.Sentence, "Rank 4000 ") {
		t.Errorf("got %+v, want rank 4000", got)
	}
}

// TestWhatIsCompared: Find compares with the latest snapshot that is at least five seconds older,
// or with the oldest one. The first one is the start.
func TestWhatIsCompared(t *testing.T) {
	var h History
	began := time.Unix(0, 0)
	for _, step := range []struct{ at, want float64 }{
		{2, 2}, {3, 3}, {3.5, 3.5}, {6.9, 6.9}, {7, 5}, {8, 5}, {8.1, 5.1}, {9.4, 6.4}, {14.5, 5.1}, {300, 285.5}, {300.1, 285.6}, {301, 286.5}, {305, 5},
	} {
		at := began.Add(time.Duration(step.at * float64(time.Second)))
		if got := h.Find(Snapshot{At: at, Counters: map[string]float64{}}, began); fmt.Sprintf("%.1f", got.Seconds) != fmt.Sprintf("%.1f", step.want) {
			t.Errorf("at %v s: got %.2f s, want %v", step.at, got.Seconds, step.want)
		}
		if len(h.snapshots) > 7 {
			t.Errorf("got %d looks kept", len(h.snapshots))
		}
	}
}

// TestManyAskers: two pages and a terminal call Find concurrently. No caller shortens the period of
// another one.
func TestManyAskers(t *testing.T) {
	var h History
	began := time.Unix(0, 0)
	for at := 0.1; at < 60; at += 0.1 {
		n := int(at*10 + 0.5)
		if n%10 != 0 && n%10 != 1 && n%20 != 3 { // the second page calls just after the first one
			continue
		}
		got := h.Find(Snapshot{At: began.Add(time.Duration(n) * 100 * time.Millisecond)}, began)
		if least := min(5, float64(n)/10); got.Seconds < least || got.Seconds > least+2 {
			t.Errorf("at %.1f s: got %.1f s looked at, want %v to %v", at, got.Seconds, least, least+2)
		}
	}
}

// TestHistory_FindGivesEachRankItsFigures: the ranks' figures and the sentence cover the same
// period. A rank without a request in the period keeps its recent think time.
func TestHistory_FindGivesEachRankItsFigures(t *testing.T) {
	var h History
	began, calm, waits := time.Unix(0, 0), rank(0, 0, 0, 0, fast), rank(1, .1, .6, .1, 20*time.Millisecond)
	h.Find(Snapshot{At: began.Add(period * time.Second), Ranks: []stats.Reader{calm, waits}}, began)
	calm.ThinkMS = 1000
	waits.Spent.All, waits.Spent.Bytes = waits.Spent.All+period, waits.Spent.Bytes+2
	waits.Spent.Pauses, waits.Spent.Paused = waits.Spent.Pauses+3, waits.Spent.Paused+100
	ranks := []stats.Reader{calm, waits}
	finding := h.Find(Snapshot{At: began.Add(2 * period * time.Second), Ranks: ranks}, began)
	recent := [4]float64{ranks[0].WaitingShare, ranks[0].ThinkMS, ranks[1].WaitingShare, ranks[1].ThinkMS}
	if want := [4]float64{0, 1000, .2, 30}; finding.Seconds != period || recent != want {
		t.Errorf("got %v s and %v, want %v s and %v", finding.Seconds, recent, period, want)
	}
}
