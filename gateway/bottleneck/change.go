package bottleneck

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/gateway/stats"
)

const (
	reads   = time.Minute // time after its last request in which a rank counts as a reader
	overdue = 4           // mean times between two batches after which a request is overdue
)

// cause is the kind of wait of a rank.
type cause int

const (
	planning cause = iota // the gateway plans the batch, or waits for memory to plan it
	bytes
	sending
	causes // number of causes
)

// reader is the activity of a rank between two snapshots.
type reader struct {
	stats.Reader
	waits [causes]float64 // shares of its time, 0 to 1
	// time from the end of a response to the next request; an earlier value if the rank made no
	// request between the snapshots
	think time.Duration
	idle  time.Duration // since its last request
	asked bool          // the rank made a request between the snapshots, and its next one is not overdue, as after the end of a job
}

// waiting returns the share of its time that a reader waits for the gateway.
func (r *reader) waiting() float64 { return min(r.waits[planning]+r.waits[bytes]+r.waits[sending], 1) }

func (r *reader) String() string {
	return fmt.Sprintf("Rank %d of %d of %s", r.Rank, r.WorldSize, cmp.Or(r.Dataset, "the default dataset"))
}

// since returns the activity of a rank after an earlier snapshot, whose times are zero for a new
// rank.
func since(r stats.Reader, before stats.RankTimes, seconds float64) reader {
	s := r.Spent
	out := reader{Reader: r, think: time.Duration(r.ThinkMS * float64(time.Millisecond)), idle: time.Duration(r.IdleSeconds * float64(time.Second))}
	if all := s.All - before.All; all > 0 {
		out.waits = [causes]float64{(s.Planning - before.Planning) / all, (s.Bytes - before.Bytes) / all, (s.Sending - before.Sending) / all}
	}
	if n := s.Paused - before.Paused; n > 0 {
		out.think = time.Duration((s.Pauses - before.Pauses) / float64(n) * float64(time.Second))
	}
	out.asked = r.IdleSeconds < seconds && out.idle < max(leastApart, overdue*out.think)
	return out
}

// change is the difference between two snapshots.
type change struct {
	before, now Snapshot
	readers     []reader // ranks with a request in the last minute, or waiting for a response
	longest     *reader  // reader with the largest share of waiting; nil: no readers
}

func between(before, now Snapshot) *change {
	type key struct {
		stats.Job
		rank uint64
	}
	c := &change{before: before, now: now}
	spent := make(map[key]stats.RankTimes, len(before.Ranks))
	for _, r := range before.Ranks {
		spent[key{r.Job, r.Rank}] = r.Spent
	}
	for i := range now.Ranks {
		r := &now.Ranks[i]
		earlier := spent[key{r.Job, r.Rank}]
		if earlier.All > r.Spent.All {
			earlier = stats.RankTimes{} // the gateway dropped the rank's state before the rank returned
		}
		x := since(*r, earlier, c.seconds())
		r.WaitingShare, r.ThinkMS = min(x.waits[bytes], 1), float64(x.think.Microseconds())/1000
		if x.idle < reads || x.waiting() > 0 {
			c.readers = append(c.readers, x)
		}
	}
	for i := range c.readers {
		if r := &c.readers[i]; c.longest == nil || r.waiting() > c.longest.waiting() {
			c.longest = r
		}
	}
	return c
}

func (c *change) seconds() float64 { return max(c.now.At.Sub(c.before.At).Seconds(), 1e-3) }

// rose returns the increase of a counter.
func (c *change) rose(name string) float64 {
	return max(0, c.now.Counters[name]-c.before.Counters[name])
}

// roseBy returns the increase of a counter, summed by the value of a label.
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

// roseAll returns the increase of a counter with a label for the dataset, summed over all labels.
func (c *change) roseAll(name string) (sum float64) {
	for _, n := range c.roseBy(name, "dataset") {
		sum += n
	}
	return sum
}

// most returns the name of the largest sum, or "" if all are zero.
func most(sums map[string]float64) (name string) {
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if sums[key] > sums[name] {
			name = key
		}
	}
	return name
}

// phases returns the seconds that requests spent in each phase.
func (c *change) phases() map[string]float64 {
	return c.roseBy("millrace_http_phase_seconds_total", "phase")
}

// tier returns the tier for which requests waited longest. These waits are counted when a response
// ends. If ranks wait longer, the open reads of the store explain it.
func (c *change) tier() string {
	waited := c.roseBy("millrace_tier_wait_seconds_total", "tier")
	tier := most(waited)
	switch {
	case waited[tier] >= c.seconds()*c.longest.waits[bytes]/2:
	case c.open() > 0:
		return "store"
	case tier == "" && c.now.Counters["millrace_cluster_members"] > 0:
		return "peer"
	}
	return tier
}

// open returns the number of open reads of the store.
func (c *change) open() (sum float64) {
	for key, n := range c.now.Counters {
		if strings.HasPrefix(key, "millrace_store_reads_open{") {
			sum += n
		}
	}
	return sum
}

// cause returns the main cause of the waits of limited ranks.
func (c *change) cause() cause {
	var sums [causes]float64
	for _, r := range c.readers {
		if r.waiting() <= waits {
			continue
		}
		for i, share := range r.waits {
			sums[i] += share
		}
	}
	out := planning
	for i := range causes {
		if sums[i] > sums[out] {
			out = i
		}
	}
	return out
}

// waitsFor reports whether ranks wait for bytes mainly from the given tier.
func (c *change) waitsFor(tier string) bool { return c.cause() == bytes && c.tier() == tier }

// busy returns the processor time per second of sending, where the seconds of sending are at most
// the seconds of all processors. It is 0 to slightly above 1.
func (c *change) busy() float64 {
	able := min(c.phases()["send"], c.seconds()*float64(runtime.GOMAXPROCS(0)))
	return c.rose(Processor) / max(able, 1e-3)
}
