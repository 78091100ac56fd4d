package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/words"
)

// enough is the factor within which a result counts as equal to the best one.
const enough = 1.05

// Advice summarizes a list of results in sentences: the bottleneck, the cache size that is enough,
// the best policy, and whether a disk or a second gateway would help. It compares the last epochs,
// whose caches are warm.
func Advice(d *Data, results []Result) []string {
	if len(results) == 0 {
		return nil
	}
	best := slices.MinFunc(results, func(a, b Result) int { return compare(a, b) })
	lines := []string{limit(best)}
	lines = append(lines, cacheAdvice(best, results)...)
	lines = append(lines, policyAdvice(results)...)
	lines = append(lines, other(results, "disk cache", func(s *Setting) *int64 { return &s.DiskSize })...)
	lines = append(lines, gatewayAdvice(results)...)
	lines = append(lines, fleetAdvice(d, results)...)
	return append(lines, warnings(d, results)...)
}

// compare orders results by time. If two results are equally fast, the setting that needs less
// comes first.
func compare(a, b Result) int {
	x, y := a.Later().Time, b.Later().Time
	switch {
	case float64(x)*enough < float64(y):
		return -1
	case float64(y)*enough < float64(x):
		return 1
	}
	sa, sb := &a.Setting, &b.Setting
	for _, n := range []int64{sa.CacheSize - sb.CacheSize, sa.DiskSize - sb.DiskSize, int64(sa.Gateways - sb.Gateways), int64(x - y)} {
		if n != 0 {
			return int(min(max(n, -1), 1))
		}
	}
	return 0
}

// limit returns the bottleneck of a setting.
func limit(r Result) string {
	e := r.Later()
	b := r.Bounds(e)[0]
	what := map[string]string{
		"job": "the job is the bottleneck", "store": "the store is the bottleneck", "disk": "the disk is the bottleneck",
		"link": "the link of the gateways is the bottleneck", "gateway": "the line from gateway to ranks is the bottleneck", "fetchers": "the fetchers and the store's time to the first byte are the bottleneck",
	}[b.Name]
	line := fmt.Sprintf("With %s %s: %s = %s of the %s that an epoch takes.", describe(&r.Setting), what, b.Sum, Span(b.Time), Span(e.Time))
	if float64(e.Time) > 1.25*float64(b.Time) {
		line += " The rest is waiting without overlap: for bursts, or for steps one after another."
	}
	return line
}

// cacheAdvice returns the smallest cache that is as good as the best one.
func cacheAdvice(best Result, results []Result) []string {
	sizes := distinct(results, func(s *Setting) int64 { return s.CacheSize })
	if len(sizes) < 2 {
		return nil
	}
	size, e := words.Size(best.Setting.CacheSize), best.Later()
	if b := best.Bounds(e)[0]; b.Name == "job" && float64(e.Time) <= enough*float64(b.Time) {
		return []string{fmt.Sprintf("Cache: %s is enough (policy %s): with it the job hardly waits.", size, best.Setting.Policy)}
	}
	if best.Setting.CacheSize == sizes[len(sizes)-1] {
		return []string{fmt.Sprintf("Cache: only the largest, %s, is within 5 %% of the best here; a larger one may help more.", size)}
	}
	return []string{fmt.Sprintf("Cache: %s is enough (policy %s): of those here, larger ones make an epoch at most 5 %% shorter.", size, best.Setting.Policy)}
}

// policyAdvice compares the policies in the setting where they differ most.
func policyAdvice(results []Result) []string {
	var rows []Result
	most := 0.
	for i := range results {
		key := results[i].Setting
		var same []Result
		for _, r := range results {
			if key.Policy = r.Setting.Policy; r.Setting == key {
				same = append(same, r)
			}
		}
		slices.SortFunc(same, func(a, b Result) int { return int(a.Later().Time - b.Later().Time) })
		fast, slow := same[0].Later(), same[len(same)-1].Later()
		if by := float64(slow.Time) / float64(fast.Time); len(same) > 1 && by > most {
			most, rows = by, same
		}
	}
	switch {
	case len(rows) == 0:
		return nil
	case most < enough:
		return []string{"Policy: it makes no difference here, an epoch takes the same with each."}
	}
	var parts []string
	least := 0
	for i := range rows {
		e := rows[i].Later()
		parts = append(parts, fmt.Sprintf("%s %s an epoch and %s of the store", rows[i].Setting.Policy, Span(e.Time), Bytes(e.StoreBytes)))
		if e.StoreBytes < rows[least].Later().StoreBytes {
			least = i
		}
	}
	line := fmt.Sprintf("Policy: where they differ most, with a cache of %s, they take: %s.", words.Size(rows[0].Setting.CacheSize), strings.Join(parts, "; "))
	if float64(rows[least].Later().Time) > enough*float64(rows[0].Later().Time) {
		line += fmt.Sprintf(" %s reads the least, but is not the fastest: it saves its reads in one part of the epoch, where the ranks cannot go faster.", rows[least].Setting.Policy)
	}
	return []string{line}
}

// other compares the largest and the smallest value of a field. The other fields are those of the
// best setting with each value.
func other(results []Result, name string, field func(*Setting) *int64) []string {
	sizes := distinct(results, func(s *Setting) int64 { return *field(s) })
	if len(sizes) < 2 {
		return nil
	}
	with := bestOf(results, func(s *Setting) bool { return *field(s) != sizes[0] })
	same := with.Setting
	*field(&same) = sizes[0]
	i := slices.IndexFunc(results, func(r Result) bool { return r.Setting == same })
	if i < 0 {
		return nil
	}
	without, size := "without one", words.Size(*field(&with.Setting))
	if sizes[0] > 0 {
		without = "with " + words.Size(sizes[0])
	}
	return []string{fmt.Sprintf("A %s of %s: an epoch takes %s, %s %s.", name, size, Span(with.Later().Time), without, Span(results[i].Later().Time))}
}

// gatewayAdvice reports whether more gateways would help.
func gatewayAdvice(results []Result) []string {
	counts := distinct(results, func(s *Setting) int64 { return int64(s.Gateways) })
	if len(counts) < 2 {
		return nil
	}
	few := bestOf(results, func(s *Setting) bool { return int64(s.Gateways) == counts[0] })
	same := few.Setting
	same.Gateways = int(counts[len(counts)-1])
	i := slices.IndexFunc(results, func(r Result) bool { return r.Setting == same })
	if i < 0 {
		return nil
	}
	many := results[i]
	x, y := few.Later(), many.Later()
	verdict := "do not help"
	if float64(y.Time)*enough < float64(x.Time) {
		verdict = "help"
	}
	how := "They are one cache"
	if same.Alone {
		how = "Each has its own cache and reads the chunks of its ranks"
	}
	return []string{fmt.Sprintf("Gateways: %d instead of %d %s: an epoch takes %s against %s. %s: %s of the store together against %s.",
		same.Gateways, few.Setting.Gateways, verdict, Span(y.Time), Span(x.Time), how, Bytes(y.StoreBytes), Bytes(x.StoreBytes))}
}

// warnings returns the warnings that a gateway would log at its start.
func warnings(d *Data, results []Result) []string {
	var lines []string
	for _, size := range distinct(results, func(s *Setting) int64 { return s.CacheSize }) {
		i := slices.IndexFunc(results, func(r Result) bool { return r.Setting.CacheSize == size })
		s := &results[i].Setting
		if s.Small(d) {
			lines = append(lines, fmt.Sprintf("Warning: a cache of %s is smaller than the order requires, %s: some chunks are read more than once an epoch.", words.Size(size), Bytes(s.Needed(d))))
		}
	}
	return lines
}

func bestOf(results []Result, of func(*Setting) bool) Result {
	var some []Result
	for _, r := range results {
		if of(&r.Setting) {
			some = append(some, r)
		}
	}
	return slices.MinFunc(some, func(a, b Result) int { return compare(a, b) })
}

// distinct returns the distinct values of a field over all settings, ascending.
func distinct(results []Result, of func(*Setting) int64) []int64 {
	var all []int64
	for i := range results {
		all = append(all, of(&results[i].Setting))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// describe returns the fields that may differ between the settings of a list.
func describe(s *Setting) string {
	text := fmt.Sprintf("a cache of %s, policy %s", words.Size(s.CacheSize), s.Policy)
	if s.DiskSize > 0 {
		text += fmt.Sprintf(", a disk cache of %s", words.Size(s.DiskSize))
	}
	if s.Gateways > 1 {
		text += fmt.Sprintf(", %d gateways", s.Gateways)
	}
	return text
}

// Waiting returns the share of an epoch for which the rank with the longest stall waits.
func (e *Epoch) Waiting() float64 {
	_, most := e.Stall()
	return float64(most) / float64(max(e.Time, time.Nanosecond))
}
