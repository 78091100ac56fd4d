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

// reads is how long after its last request a rank counts as one that reads.
const reads = time.Minute

// cause is what a rank waits for.
type cause int

const (
	planning cause = iota // the gateway finds out what is in the batch, or waits for memory to do so
	bytes
	sending
	causes // how many there are
)

// reader is a rank between two looks.
type reader struct {
	Rank
	waits [causes]float64 // shares of its time, 0 to 1
	think time.Duration   // from the end of an answer to the next request; of late, if it has not asked between the looks
	asked bool            // it has asked between the looks
}

// waiting is the share of its time that a reader waits for the gateway.
func (r *reader) waiting() float64 { return min(r.waits[planning]+r.waits[bytes]+r.waits[sending], 1) }

func (r *reader) String() string {
	return fmt.Sprintf("Rank %d of %d of %s", r.Rank.Rank, r.WorldSize, cmp.Or(r.Dataset, "the default dataset"))
}

// since says where a rank's time went after an earlier look. A rank that came later has none there.
func (r Rank) since(before stats.RankTimes, seconds float64) reader {
	s := r.Spent
	out := reader{Rank: r, think: r.Think, asked: r.Idle.Seconds() < seconds}
	if all := s.All - before.All; all > 0 {
		out.waits = [causes]float64{(s.Planning - before.Planning) / all, (s.Bytes - before.Bytes) / all, (s.Sending - before.Sending) / all}
	}
	if n := s.Paused - before.Paused; n > 0 {
		out.think = time.Duration((s.Pauses - before.Pauses) / float64(n) * float64(time.Second))
	}
	return out
}

// change is what has happened between two looks.
type change struct {
	before, now Snapshot
	readers     []reader // that have asked in the last minute, or wait for an answer
	longest     *reader  // of these, the one that waits for the largest share of its time; nil: nobody reads
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
	for _, r := range now.Ranks {
		earlier := spent[key{r.Job, r.Rank}]
		if earlier.All > r.Spent.All {
			earlier = stats.RankTimes{} // the rank was forgotten, and has come again
		}
		if x := r.since(earlier, c.seconds()); r.Idle < reads || x.waiting() > 0 {
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

// most returns the name of the largest sum; "" if there is nothing.
func most(sums map[string]float64) (name string) {
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		if sums[key] > sums[name] {
			name = key
		}
	}
	return name
}

// phases are the seconds that requests have spent on each phase.
func (c *change) phases() map[string]float64 {
	return c.roseBy("millrace_http_phase_seconds_total", "phase")
}

// tier returns the tier for which requests have waited longest.
func (c *change) tier() string { return most(c.roseBy("millrace_tier_wait_seconds_total", "tier")) }

// cause is what the ranks that wait wait for most.
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

// waitsFor reports whether ranks wait for bytes, and those come from a tier.
func (c *change) waitsFor(tier string) bool { return c.cause() == bytes && c.tier() == tier }

// busy is the processor time of the gateway for each second in which it sends, 0 to 1 and a little more. Where more requests
// send than there are processors, it is the share of the processors.
func (c *change) busy() float64 {
	able := min(c.phases()["send"], c.seconds()*float64(runtime.GOMAXPROCS(0)))
	return c.rose(Processor) / max(able, 1e-3)
}
