package bottleneck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	reads    = time.Minute // a rank that has not asked for so long reads no more
	waits    = 0.2         // a rank that waits for a larger share of its time is limited by what it waits for
	late     = 4           // so many times as long as the median of its job a slow rank takes between two batches
	behind   = 10          // so many batches it is behind then
	failing  = 0.05        // more of the requests to a store, or of the questions to gateways, that fail are many
	full     = 0.75        // of the memory: more is held where requests wait for memory
	fewest   = 3           // fewer failures than these are none
	unwanted = 0.1         // more of the chunks that were brought were let go before the readers that were coming for them
)

// change is what has happened between two looks.
type change struct {
	before, now Look
	ranks       []Rank  // that read
	waiting     float64 // the largest share that one of them waits
}

// rule says what limits, if it is this. The first rule that holds counts.
type rule struct {
	code string
	says func(*change) (sentence, cure string)
}

func rules() []rule {
	return []rule{
		{"nobody", nobody},
		{"memory", memory},
		{"store-fails", storeFails},
		{"peers", peers},
		{"rank", slowRank},
		{"readers", readers},
		{"cache", cache},
		{"store", store},
		{"disk", disk},
		{"network", network},
		{"planning", planning},
		{"gateway", gateway},
	}
}

func find(before, now Look) Finding {
	c := &change{before: before, now: now}
	for _, r := range now.Ranks {
		if r.Idle < reads {
			c.ranks, c.waiting = append(c.ranks, r), max(c.waiting, r.Waiting)
		}
	}
	for _, r := range rules() {
		if sentence, cure := r.says(c); sentence != "" {
			return Finding{r.code, sentence, cure, c.seconds()}
		}
	}
	return Finding{} // the last rule always holds
}

func (c *change) seconds() float64 { return max(c.now.At.Sub(c.before.At).Seconds(), 1e-3) }

// rose is by how much a counter has risen.
func (c *change) rose(name string) float64 {
	return max(0, c.now.Counters[name]-c.before.Counters[name])
}

// roseBy sums by how much the counters of a name have risen, for each value of a label.
func (c *change) roseBy(name, label string) map[string]float64 {
	sums := map[string]float64{}
	for key := range c.now.Counters {
		rest, ok := strings.CutPrefix(key, name+"{")
		if !ok {
			continue
		}
		_, rest, _ = strings.Cut(rest, label+`="`)
		value, _, _ := strings.Cut(rest, `"`)
		sums[value] += c.rose(key)
	}
	return sums
}

// most returns the largest of some sums; "" if there is nothing.
func most(sums map[string]float64) (name string) {
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if sums[key] > sums[name] {
			name = key
		}
	}
	return name
}

// tier returns where requests have waited longest for bytes.
func (c *change) tier() string { return most(c.roseBy("millrace_tier_wait_seconds_total", "tier")) }

// phase returns what requests have spent most of their time on.
func (c *change) phase() string { return most(c.roseBy("millrace_http_phase_seconds_total", "phase")) }

// waitsFor reports whether ranks wait, and for a tier.
func (c *change) waitsFor(tier string) bool { return c.phase() == "read" && c.tier() == tier }

// longest is how the rank that waits most is said.
func (c *change) longest() string {
	r := slices.MaxFunc(c.ranks, func(a, b Rank) int { return cmp.Compare(a.Waiting, b.Waiting) })
	return fmt.Sprintf("%s waits %s of its time for bytes", r, share(r.Waiting))
}

func (r Rank) String() string {
	return fmt.Sprintf("Rank %d of %d of %s", r.Rank, r.WorldSize, cmp.Or(r.Dataset, "the default dataset"))
}

func share(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func megabytes(x float64) string { return fmt.Sprintf("%.3g MB", x/1e6) }

func nobody(c *change) (sentence, cure string) {
	if len(c.ranks) > 0 {
		return "", ""
	}
	return "Nobody has asked for a batch in the last minute.", ""
}

func memory(c *change) (sentence, cure string) {
	refused, queue := c.rose("millrace_budget_refused_total"), c.now.Counters["millrace_budget_waiting"]
	pinned, all := c.now.Counters["millrace_budget_pinned_bytes"], c.now.Counters["millrace_budget_bytes"]
	if refused == 0 && (queue == 0 || pinned < full*all) {
		return "", ""
	}
	return fmt.Sprintf("The memory is full: %s of %s are held by bodies under way and chunks in use, %.0f requests wait for memory, and %.0f have waited in vain.",
			megabytes(pinned), megabytes(all), queue, refused),
		"raise --cache-size, ask for fewer batches at a time, or look for readers that take their bodies slowly"
}

func storeFails(c *change) (sentence, cure string) {
	failed := map[string]float64{}
	sum := 0.0
	for _, kind := range []string{"throttled", "denied", "unavailable", "timeout", "short"} {
		failed[kind] = c.rose("millrace_store_errors_" + kind + "_total")
		sum += failed[kind]
	}
	all := c.rose("millrace_store_requests_total")
	if (sum < fewest || sum <= failing*all) && c.now.Counters["millrace_store_breakers_open"] == 0 {
		return "", ""
	}
	return fmt.Sprintf("The store fails: %.0f errors in %.0f requests; most of them: %s.", sum, all, cmp.Or(most(failed), "none now, and it gets nothing but probes")),
		"the log names the object and the error; docs/operations.md, \"When the store refuses or fails\""
}

func peers(c *change) (sentence, cure string) {
	failed, all := c.rose("millrace_peer_failed_total"), c.rose("millrace_peer_reads_total")
	out := c.now.Counters["millrace_cluster_members_ejected"]
	if (failed < fewest || failed <= failing*all) && out == 0 {
		return "", ""
	}
	return fmt.Sprintf("Other gateways do not answer in time: %.0f of %.0f questions, and %.0f of them are left out for a while. What they hold is read from the store.", failed, all, out),
		"/v1/cluster names the gateway and says why"
}

func slowRank(c *change) (sentence, cure string) {
	for _, r := range c.ranks {
		var others []time.Duration
		for _, o := range c.ranks {
			if o.Dataset == r.Dataset && o.WorldSize == r.WorldSize && o.Rank != r.Rank {
				others = append(others, o.Think)
			}
		}
		if len(others) == 0 {
			continue
		}
		slices.Sort(others)
		usual := others[len(others)/2]
		if r.Waiting <= waits && r.Behind >= behind && r.Think > late*usual {
			return fmt.Sprintf("%s is slow: it takes %v between two batches, others of its job %v, and waits %s of its time for bytes; it is %d batches behind.",
					r, r.Think.Round(time.Millisecond), usual.Round(time.Millisecond), share(r.Waiting), r.Behind),
				"look at that machine: faster data would change nothing"
		}
	}
	return "", ""
}

func readers(c *change) (sentence, cure string) {
	if c.waiting > waits {
		return "", ""
	}
	slowest := slices.MaxFunc(c.ranks, func(a, b Rank) int { return cmp.Compare(a.Think, b.Think) })
	return fmt.Sprintf("The readers limit themselves: none of %d waits more than %s of its time for bytes. %s takes longest between two batches, %v.",
			len(c.ranks), share(c.waiting), slowest, slowest.Think.Round(time.Millisecond)),
		"faster data would change nothing"
}

func cache(c *change) (sentence, cure string) {
	unused, loads := c.rose("millrace_cache_expected_evictions_total"), c.rose("millrace_cache_loads_total")
	if unused < fewest || unused <= unwanted*loads || !c.waitsFor("store") {
		return "", ""
	}
	return fmt.Sprintf("The memory is too small: %.0f of %.0f chunks were let go before readers that were coming for them, and are read again. %s.", unused, loads, c.longest()),
		"raise --cache-size, or add gateways; millrace simulate says what it would save"
}

func store(c *change) (sentence, cure string) {
	if !c.waitsFor("store") {
		return "", ""
	}
	return fmt.Sprintf("The store limits: it gives %s/s in %.0f reads. %s.",
			megabytes(c.rose("millrace_store_read_bytes_total")/c.seconds()), c.rose("millrace_store_reads_total"), c.longest()),
		"more memory or a disk tier, if epochs repeat (millrace simulate says what they save); else a store that is nearer or faster"
}

func disk(c *change) (sentence, cure string) {
	if !c.waitsFor("disk") {
		return "", ""
	}
	return fmt.Sprintf("The disk limits: it gives %s/s. %s.", megabytes(c.rose("millrace_disk_hit_bytes_total")/c.seconds()), c.longest()), "raise --cache-size, or take a faster disk"
}

func network(c *change) (sentence, cure string) {
	if c.phase() != "send" {
		return "", ""
	}
	bytes := 0.0
	for _, sent := range c.roseBy("millrace_http_response_bytes_total", "route") {
		bytes += sent
	}
	return fmt.Sprintf("The way to the readers limits: %s/s leave, and most of a request's time goes into sending. %s.", megabytes(bytes/c.seconds()), c.longest()),
		"nothing at the gateway: readers take their bytes slowly, or the network between is full"
}

func planning(c *change) (sentence, cure string) {
	phase := c.phase()
	if phase != "plan" && phase != "locate" && phase != "decode" {
		return "", ""
	}
	return fmt.Sprintf("Working out what is in the batches limits (%s). %s.", phase, c.longest()), "smaller batches, the dataset's own form, or a smaller window"
}

// gateway is what is left: all is at hand.
func gateway(c *change) (sentence, cure string) {
	return fmt.Sprintf("The readers ask as fast as they are answered: %.0f samples/s, out of memory for the most part. %s.",
			c.now.Counters["millrace_readers_samples_per_second"], c.longest()),
		"ask for several batches at a time, or add gateways"
}
