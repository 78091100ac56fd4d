package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/internal/words"
)

const (
	// waits is the share of waiting above which the gateway limits a rank. Below it, faster
	// data would save less than a fifth of the rank's time.
	waits = 0.2

	// The time of a slow rank between two batches is late times the median of its job, and the
	// rank is behind batches behind, which is more than readers prefetch.
	late   = 4
	behind = 10

	// apart is the number of batches by which the last rank of a job must be behind all other
	// ranks. Equal ranks differ by at most one batch.
	apart = 2

	// failing is the share of failed requests to stores or other gateways that counts as high.
	// Fewer failures than fewest are ignored, because one failure among few requests is not
	// significant.
	failing = 0.05
	fewest  = 3

	// full is the share of memory in use above which requests wait because there is too little
	// memory.
	full = 0.75

	// unwanted is the share of loaded chunks that were evicted before use above which the cache is
	// too small.
	unwanted = 0.1

	// works is the processor time per second of sending below which the gateway waits for
	// readers or the network. Copying bytes to a reader on a fast network takes more.
	works = 0.15
)

// rule describes one bottleneck; says returns "" if it does not apply. The first rule that applies
// counts.
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
		{"readers", readersLimit},
		{"cache", cache},
		{"store", store},
		{"disk", disk},
		{"peer", peer},
		{"network", network},
		{"planning", plans},
		{"gateway", gateway},
	}
}

func find(c *change) stats.Finding {
	for _, r := range rules() {
		if sentence, cure := r.says(c); sentence != "" {
			return stats.Finding{Limits: stats.Limits{Code: r.code, Sentence: sentence, Do: cure}, Seconds: c.seconds()}
		}
	}
	return stats.Finding{} // unreachable: the last rule always applies
}

func share(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func megabytes(x float64) string { return fmt.Sprintf("%.3g MB", x/1e6) }

// waitsMost returns the name of the rank with the largest share of waiting of any kind.
func (c *change) waitsMost() string {
	return fmt.Sprintf("%s waits %s of its time", c.longest, share(c.longest.waiting()))
}

// waitsForBytes returns the name of the rank that waits for bytes for the largest share of its
// time.
func (c *change) waitsForBytes() string {
	r := slices.MaxFunc(c.readers, func(a, b reader) int { return cmp.Compare(a.waits[bytes], b.waits[bytes]) })
	return fmt.Sprintf("%s waits %s of its time for data", &r, share(r.waits[bytes]))
}

func nobody(c *change) (sentence, cure string) {
	if len(c.readers) > 0 {
		return "", ""
	}
	return "Idle: no batch was requested in the last minute.", ""
}

func memory(c *change) (sentence, cure string) {
	refused, queue := c.rose("millrace_budget_refused_total"), c.now.Counters["millrace_budget_waiting"]
	pinned, all := c.now.Counters["millrace_budget_pinned_bytes"], c.now.Counters["millrace_budget_bytes"]
	if refused == 0 && (queue == 0 || pinned < full*all) {
		return "", ""
	}
	return fmt.Sprintf("Memory is full: responses and chunks in use hold %s of %s. %.0f requests wait for memory, and %.0f timed out.",
			megabytes(pinned), megabytes(all), queue, refused),
		"raise --cache-size, request fewer batches at a time, or find the clients that receive slowly"
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
	sentence = "The store is down: the gateway sends only probes."
	if sum > 0 {
		sentence = fmt.Sprintf("The store fails: %.0f errors in %.0f requests, most of them %s.", sum, all, most(failed))
	}
	return sentence, `find the object and the error in the log; see docs/troubleshooting.md, "The store is slow or refuses"`
}

func peers(c *change) (sentence, cure string) {
	failed, all := c.rose("millrace_peer_failed_total"), c.rose("millrace_peer_reads_total")
	const ejected = "millrace_cluster_members_ejected" // an ejected member that is being probed has not answered yet
	out := max(c.now.Counters[ejected], c.before.Counters[ejected])
	if (failed < fewest || failed <= failing*all) && out == 0 {
		return "", ""
	}
	return fmt.Sprintf("Other gateways do not answer in time: %.0f of %.0f requests failed, and %s ejected. The store is read instead.", failed, all, words.Count(int(out), "gateway was", "gateways were")),
		"see /v1/cluster for the gateway and the reason"
}

// usual returns for each job the lower median of its ranks' time between two batches, and the time
// since the last request of any rank.
func (c *change) usual() (think, quiet map[stats.Job]time.Duration) {
	thinks := map[stats.Job][]time.Duration{}
	think, quiet = map[stats.Job]time.Duration{}, map[stats.Job]time.Duration{}
	for _, r := range c.readers {
		if thinks[r.Job] == nil || r.idle < quiet[r.Job] {
			quiet[r.Job] = r.idle
		}
		thinks[r.Job] = append(thinks[r.Job], r.think)
	}
	for job, all := range thinks {
		slices.Sort(all)
		think[job] = all[(len(all)-1)/2]
	}
	return think, quiet
}

func slowRank(c *change) (sentence, cure string) {
	usual, quiet := c.usual()
	for _, r := range c.readers {
		others, rests := usual[r.Job], r.idle-quiet[r.Job] // in a job without recent requests no rank is slow
		if r.waiting() > waits || r.BatchesBehind < behind || max(r.think, rests) <= late*others {
			continue
		}
		does := fmt.Sprintf("takes %v between batches", r.think.Round(time.Millisecond))
		if rests > r.think {
			does = fmt.Sprintf("requested nothing for %v", r.idle.Round(time.Millisecond))
		}
		return fmt.Sprintf("%s is slow: it %s, the other ranks of its job take %v. It waits %s of its time, and is %d batches behind.",
			&r, does, others.Round(time.Millisecond), share(r.waiting()), r.BatchesBehind), "check its decoding, its transforms, its training step and its machine: the gateway answers it in time"
	}
	return "", ""
}

func readersLimit(c *change) (sentence, cure string) {
	if c.longest.waiting() > waits {
		return "", ""
	}
	said := fmt.Sprintf("Not limited by the gateway: none of %d ranks waits for it more than %s of its time. The rest is between batches: the training step, or decoding and transforms.",
		len(c.readers), share(max(c.longest.waiting(), 0.01)))
	if r, after := c.straggler(); r != nil {
		return fmt.Sprintf("%s %s is the last to request batches, %d after the others of its job.", said, r, after),
			"if the ranks train in step, the others wait for this one: check its decoding, its transforms and its machine"
	}
	slowest := c.readers[0]
	for _, r := range c.readers[1:] {
		if r.asked && !slowest.asked || r.asked == slowest.asked && r.think > slowest.think {
			slowest = r
		}
	}
	return fmt.Sprintf("%s %s takes longest, %v.", said, &slowest, slowest.think.Round(time.Millisecond)),
		"time next(loader) in the trainer: if it waits, use more workers or threads, or smaller images; else optimize the training step"
}

// straggler returns the rank that is last in its job and the number of batches by which it is last,
// or nil if there is none. In a synchronous job all ranks take the same time between two batches as
// the slowest one, but the others have prefetched up to their limit.
func (c *change) straggler() (r *reader, after uint64) {
	type straggler struct {
		r     *reader
		ranks int
		next  uint64 // number of batches between the second last rank and the fastest one
	}
	jobs := map[stats.Job]straggler{}
	for i := range c.readers {
		x := &c.readers[i]
		h := jobs[x.Job]
		switch {
		case h.ranks == 0:
			h.r = x
		case x.BatchesBehind > h.r.BatchesBehind:
			h.r, h.next = x, h.r.BatchesBehind
		default:
			h.next = max(h.next, x.BatchesBehind)
		}
		h.ranks++
		jobs[x.Job] = h
	}
	for _, h := range jobs {
		if behind := h.r.BatchesBehind - h.next; h.ranks > 1 && h.r.asked && behind >= apart && behind > after {
			r, after = h.r, behind
		}
	}
	return r, after
}

func cache(c *change) (sentence, cure string) {
	unused, loads := c.rose("millrace_cache_expected_evictions_total"), c.rose("millrace_cache_loads_total")
	few := unused < fewest
	if c.rose("millrace_store_range_bytes_total") > c.roseAll("millrace_store_read_bytes_total")/2 {
		few = unused == 0 // chunks that do not fit in memory are not loaded: their samples are read individually
	}
	if few || unused <= unwanted*loads || !c.waitsFor("store") {
		return "", ""
	}
	return fmt.Sprintf("The cache is too small: it evicted %.0f chunks before their readers came, and loaded %.0f. %s.",
			unused, loads, c.waitsForBytes()),
		fmt.Sprintf("raise --cache-size, or add gateways; `%s` shows the gain", c.simulate(false))
}

func store(c *change) (sentence, cure string) {
	if !c.waitsFor("store") {
		return "", ""
	}
	sentence = fmt.Sprintf("The store is the bottleneck: %s/s in %s, %.0f open. %s.", megabytes(c.fromStore()), words.Count(int(c.roseAll("millrace_store_reads_total")), "read", "reads"), c.open(), c.waitsForBytes())
	if name, limit := c.throttled(); name != "" {
		sentence += fmt.Sprintf(" The address of %s limits it to %s/s.", name, megabytes(limit))
		cure = "raise bandwidth= in that address, if its store allows more; "
	}
	return sentence, cure + fmt.Sprintf("if epochs repeat, raise --cache-size or add --disk-cache: `%s` shows the gain; else use a closer or faster store", c.simulate(true))
}

// throttled returns a dataset whose reads are at the bandwidth limit of its address, and the limit.
func (c *change) throttled() (name string, limit float64) {
	for name, n := range c.roseBy("millrace_store_read_bytes_total", "dataset") {
		limit := c.now.Counters[fmt.Sprintf("millrace_store_bandwidth_limit_bytes{dataset=%q}", name)]
		if limit > 0 && n/c.seconds() > limit/2 {
			return name, limit
		}
	}
	return "", 0
}

func disk(c *change) (sentence, cure string) {
	if !c.waitsFor("disk") {
		return "", ""
	}
	return fmt.Sprintf("The disk cache is the bottleneck: %s/s. %s.", megabytes(c.rose("millrace_disk_hit_bytes_total")/c.seconds()), c.waitsForBytes()),
		"raise --cache-size, or use a faster disk for --disk-cache"
}

func peer(c *change) (sentence, cure string) {
	if !c.waitsFor("peer") {
		return "", ""
	}
	from := c.roseBy("millrace_tier_bytes_total", "tier")["peer"]
	return fmt.Sprintf("The other gateways are the bottleneck: %s/s. %s.", megabytes(from/c.seconds()), c.waitsForBytes()),
		"check those gateways and the network between: /v1/cluster lists them, and millrace top shows whether they read from the store"
}

// sent returns the bytes of responses per second.
func (c *change) sent() float64 { return c.roseAll("millrace_http_response_bytes_total") / c.seconds() }

func network(c *change) (sentence, cure string) {
	if c.cause() != sending || c.busy() >= works {
		return "", ""
	}
	return fmt.Sprintf("The network to the clients is the bottleneck: %s/s sent. %s, mostly while responses are sent.", megabytes(c.sent()), c.waitsMost()),
		"nothing at the gateway: the clients receive slowly, or the network is saturated"
}

// plans is the rule for requests that wait for planning. The constant cost per request does not
// count.
func plans(c *change) (sentence, cure string) {
	took := c.phases()
	if c.cause() != planning || took["decode"]+took["wait"]+took["plan"]+took["locate"] <= took["edge"] {
		return "", ""
	}
	longest := most(map[string]float64{"decode": took["decode"], "wait": took["wait"], "plan": took["plan"], "locate": took["locate"]})
	all := c.roseAll("millrace_http_phase_seconds_total")
	return fmt.Sprintf("Planning is the bottleneck: the phase %s takes %s of the time of all requests. %s.", longest, share(took[longest]/all), c.waitsMost()),
		"request smaller batches, the dataset's own format, or a smaller window"
}

// gateway is the remaining rule: the gateway itself is the bottleneck.
func gateway(c *change) (sentence, cure string) {
	return fmt.Sprintf("The gateway is the bottleneck: %.0f samples/s, %s/s, %.1f CPUs busy. %s.",
			c.now.Counters["millrace_readers_samples_per_second"], megabytes(c.sent()), c.rose(Processor)/c.seconds(), c.waitsMost()),
		"request several batches at a time, or add gateways"
}
