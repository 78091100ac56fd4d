package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-data/millrace/gateway/stats"
)

const (
	// waits is the share of its time above which a rank is limited by what it waits for. Below it faster data would
	// save the rank less than a fifth of its time.
	waits = 0.2

	// late is how many times as long as the median of its job a slow rank takes between two batches, and behind is how
	// many batches it is behind: more than readers hold in advance.
	late   = 4
	behind = 10

	// apart is how many batches after all others of its job the last rank asks. Ranks that are alike are up to one apart.
	apart = 2

	// failing is the share of the requests to stores, or of the questions to other gateways, above which failures are
	// many. Fewer than fewest are none: one request that fails among few says nothing.
	failing = 0.05
	fewest  = 3

	// full is the share of the memory that is held where requests wait for memory because there is too little of it.
	full = 0.75

	// unwanted is the share of the chunks brought above which too many left the memory before their readers came.
	unwanted = 0.1

	// works is the processor time for each second in which the gateway sends. Below it the gateway waits for the
	// readers or the network; copying bytes to a reader on a fast network takes more.
	works = 0.15
)

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

func find(before, now Snapshot) stats.Finding {
	c := between(before, now)
	for _, r := range rules() {
		if sentence, cure := r.says(c); sentence != "" {
			return stats.Finding{Limits: stats.Limits{Code: r.code, Sentence: sentence, Do: cure}, Seconds: c.seconds()}
		}
	}
	return stats.Finding{} // the last rule always holds
}

func share(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

func megabytes(x float64) string { return fmt.Sprintf("%.3g MB", x/1e6) }

// waitsSaid is how the rank that waits most is said.
func (c *change) waitsSaid(what string) string {
	return fmt.Sprintf("%s waits %s of its time%s", c.longest, share(c.longest.waiting()), what)
}

func nobody(c *change) (sentence, cure string) {
	if len(c.readers) > 0 {
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
	return fmt.Sprintf("The memory is full: bodies under way and chunks in use hold %s of %s, %.0f requests wait for memory, and %.0f have waited in vain.",
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
		`the log names the object and the error; docs/troubleshooting.md, "The store is slow or refuses"`
}

func peers(c *change) (sentence, cure string) {
	failed, all := c.rose("millrace_peer_failed_total"), c.rose("millrace_peer_reads_total")
	const ejected = "millrace_cluster_members_ejected" // one that is asked again has not answered yet
	out := max(c.now.Counters[ejected], c.before.Counters[ejected])
	if (failed < fewest || failed <= failing*all) && out == 0 {
		return "", ""
	}
	return fmt.Sprintf("Other gateways do not answer in time: %.0f questions failed while %.0f began, and %.0f gateways were left out. The store is read in their place.", failed, all, out),
		"/v1/cluster names the gateway and says why"
}

// usual returns for each job how long its ranks take between two batches, the lower median, and how long ago the last
// of them asked.
func (c *change) usual() (think, quiet map[stats.Job]time.Duration) {
	thinks := map[stats.Job][]time.Duration{}
	think, quiet = map[stats.Job]time.Duration{}, map[stats.Job]time.Duration{}
	for _, r := range c.readers {
		if thinks[r.Job] == nil || r.Idle < quiet[r.Job] {
			quiet[r.Job] = r.Idle
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
		others, rests := usual[r.Job], r.Idle-quiet[r.Job] // a job that stands still as a whole has no slow rank
		if r.waiting() > waits || r.Behind < behind || max(r.think, rests) <= late*others {
			continue
		}
		does := fmt.Sprintf("takes %v between two batches", r.think.Round(time.Millisecond))
		if rests > r.think {
			does = fmt.Sprintf("has not asked for %v", r.Idle.Round(time.Millisecond))
		}
		return fmt.Sprintf("%s is slow: it %s, others of its job take %v. The gateway waits for it %s of the time; it is %d batches behind.",
			&r, does, others.Round(time.Millisecond), share(1-r.waiting()), r.Behind), "look at that machine: faster data would change nothing"
	}
	return "", ""
}

func readersLimit(c *change) (sentence, cure string) {
	if c.longest.waiting() > waits {
		return "", ""
	}
	said := fmt.Sprintf("The readers limit themselves: none of %d waits more than %s of its time.", len(c.readers), share(max(c.longest.waiting(), 0.01)))
	if r, after := c.straggler(); r != nil {
		return fmt.Sprintf("%s %s is the last to ask, %d batches after the others of its job.", said, r, after),
			"if the ranks train in step, the others wait for this one: look at what its machine does to its samples; faster data would change nothing"
	}
	slowest := c.readers[0]
	for _, r := range c.readers[1:] {
		if r.asked && !slowest.asked || r.asked == slowest.asked && r.think > slowest.think { // a job that has ended asks no more
			slowest = r
		}
	}
	return fmt.Sprintf("%s %s takes longest between two batches, %v.", said, &slowest, slowest.think.Round(time.Millisecond)), "faster data would change nothing"
}

// straggler returns the rank that asks after all others of its job, and how many batches after them; nil: no rank does. In a
// job that trains in step all ranks take as long between two batches as the slowest one. What tells that one apart is
// that the others have read ahead, as far as they may.
func (c *change) straggler() (r *reader, after uint64) {
	type straggler struct {
		r     *reader
		ranks int
		next  uint64 // batches that the rank before it is behind the foremost one
	}
	jobs := map[stats.Job]straggler{}
	for i := range c.readers {
		x := &c.readers[i]
		h := jobs[x.Job]
		switch {
		case h.ranks == 0:
			h.r = x
		case x.Behind > h.r.Behind:
			h.r, h.next = x, h.r.Behind
		default:
			h.next = max(h.next, x.Behind)
		}
		h.ranks++
		jobs[x.Job] = h
	}
	for _, h := range jobs {
		if behind := h.r.Behind - h.next; h.ranks > 1 && h.r.asked && behind >= apart && behind > after {
			r, after = h.r, behind
		}
	}
	return r, after
}

func cache(c *change) (sentence, cure string) {
	unused, loads := c.rose("millrace_cache_expected_evictions_total"), c.rose("millrace_cache_loads_total")
	few := unused < fewest
	if c.rose("millrace_store_range_bytes_total") > c.rose("millrace_store_read_bytes_total")/2 {
		few = unused == 0 // chunks that have no room are not brought: their samples are read by themselves
	}
	if few || unused <= unwanted*loads || !c.waitsFor("store") {
		return "", ""
	}
	return fmt.Sprintf("The memory is too small: %.0f chunks left it before the readers that came for them, while %.0f were brought. %s.",
			unused, loads, c.waitsSaid(" for bytes")),
		fmt.Sprintf("raise --cache-size, or add gateways; `%s` says what more memory saves", c.simulate(false))
}

func store(c *change) (sentence, cure string) {
	if !c.waitsFor("store") {
		return "", ""
	}
	return fmt.Sprintf("The store limits: it gives %s/s in %.0f reads. %s.", megabytes(c.fromStore()), c.rose("millrace_store_reads_total"), c.waitsSaid(" for bytes")),
		fmt.Sprintf("raise --cache-size, or add a disk tier with --disk-cache, if epochs repeat: `%s` says what they save; else take a store that is nearer or faster", c.simulate(true))
}

func disk(c *change) (sentence, cure string) {
	if !c.waitsFor("disk") {
		return "", ""
	}
	return fmt.Sprintf("The disk limits: it gives %s/s. %s.", megabytes(c.rose("millrace_disk_hit_bytes_total")/c.seconds()), c.waitsSaid(" for bytes")),
		"raise --cache-size, or take a faster disk for --disk-cache"
}

func peer(c *change) (sentence, cure string) {
	if !c.waitsFor("peer") {
		return "", ""
	}
	from := c.roseBy("millrace_tier_bytes_total", "tier")["peer"]
	return fmt.Sprintf("The other gateways limit: they give %s/s. %s.", megabytes(from/c.seconds()), c.waitsSaid(" for bytes")),
		"look at those gateways and the network between: /v1/cluster names them, and millrace top shows whether they read from the store"
}

// sent is how many bytes of answers leave in a second.
func (c *change) sent() (rate float64) {
	for _, n := range c.roseBy("millrace_http_response_bytes_total", "route") {
		rate += n / c.seconds()
	}
	return rate
}

func network(c *change) (sentence, cure string) {
	if c.cause() != sending || c.busy() >= works {
		return "", ""
	}
	return fmt.Sprintf("The way to the readers limits: %s/s leave. %s, most of it until its bytes are sent.", megabytes(c.sent()), c.waitsSaid("")),
		"nothing at the gateway: readers take their bytes slowly, or the network between is full"
}

// plans is the rule of requests that wait until it is known what is in their batches. What each request costs, however small
// it is, does not count.
func plans(c *change) (sentence, cure string) {
	took := c.phases()
	if c.cause() != planning || took["decode"]+took["wait"]+took["plan"]+took["locate"] <= took["edge"] {
		return "", ""
	}
	longest := most(map[string]float64{"decode": took["decode"], "wait": took["wait"], "plan": took["plan"], "locate": took["locate"]})
	all := 0.0
	for _, seconds := range took {
		all += seconds
	}
	return fmt.Sprintf("Working out what is in the batches limits: the phase %s takes %s of all requests' time. %s.", longest, share(took[longest]/all), c.waitsSaid("")),
		"ask for smaller batches, for the dataset's own form, or for a smaller window"
}

// gateway is the rule that is left: all is at hand.
func gateway(c *change) (sentence, cure string) {
	return fmt.Sprintf("The readers ask as fast as they are answered: %.0f samples/s, %s/s, with %.1f processors busy. %s.",
			c.now.Counters["millrace_readers_samples_per_second"], megabytes(c.sent()), c.rose(Processor)/c.seconds(), c.waitsSaid("")),
		"ask for several batches at a time, or add gateways"
}
