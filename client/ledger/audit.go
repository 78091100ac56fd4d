package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Gap is positions that some ranks have not read, or have read more than once.
type Gap struct {
	Attempt uint64   `json:"attempt"`
	From    Place    `json:"from"`
	To      Place    `json:"to"` // after the last position
	Ranks   []uint64 `json:"ranks"`
}

// Report is the result of Audit.
type Report struct {
	Parts      int      `json:"parts"`
	Attempts   int      `json:"attempts"`
	From       Place    `json:"from"`
	To         Place    `json:"to"`
	Positions  uint64   `json:"positions"`   // from From to To
	RolledBack uint64   `json:"rolled_back"` // read before a resume from an earlier position, and read again after it
	Filtered   uint64   `json:"filtered"`
	Failed     uint64   `json:"failed"`
	Replaced   uint64   `json:"replaced"`
	Missing    []Gap    `json:"missing"`
	Doubled    []Gap    `json:"doubled"`
	Faults     []string `json:"faults"` // of the parts and of their chain
	Head       string   `json:"head"`   // digest of the parts of the last attempt; empty unless OK

	List []*Attempt `json:"-"` // the attempts, the first one first
}

// OK reports whether the ledgers cover each position once.
func (r *Report) OK() bool { return len(r.Missing)+len(r.Doubled)+len(r.Faults) == 0 }

func (r *Report) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// Attempt holds the parts of all ranks between two resumes of a run.
type Attempt struct {
	Parts []*Part // by rank; one of each if there are no faults
	End   Place   // least start of all later attempts, which read the positions from there again
}

// Omission returns why the reader of a rank omitted or changed a sample that it read: "filtered",
// "failed", "replaced", or "" if it yielded the sample unchanged. ok is false if the rank has not
// read the position in this attempt.
func (a *Attempt) Omission(rank uint64, at Place) (why string, ok bool) {
	for _, p := range a.Parts {
		in := func(list []Range) bool {
			return contain(p.spans(list), p.span(Range{at[0], at[1], at[1] + 1}))
		}
		switch {
		case p.Rank != rank || at.Compare(a.End) >= 0 || at[1] >= p.Positions || !in(p.Read):
			continue
		case in(p.Filtered):
			return "filtered", true
		case in(p.Failed):
			return "failed", true
		case in(p.Replaced):
			return "replaced", true
		}
		return "", true
	}
	return "", false
}

// Audit checks that the parts of all ranks of a run, in any order, cover each position once.
func Audit(parts []Part) Report {
	r := Report{Missing: []Gap{}, Doubled: []Gap{}, Faults: []string{}}
	all, twice := map[string]*Part{}, []*Part(nil)
	for i := range parts {
		p := &parts[i]
		if all[p.Digest] != nil {
			twice = append(twice, p)
		}
		all[p.Digest] = p
	}
	r.several(twice, "is given twice")
	if r.Parts = len(all); r.Parts == 0 {
		r.fault("the ledgers are empty")
		return r
	}
	sorted := slices.SortedFunc(maps.Values(all), func(p, q *Part) int {
		return cmp.Or(cmp.Compare(p.Attempt, q.Attempt), cmp.Compare(p.Rank, q.Rank), strings.Compare(p.Digest, q.Digest))
	})
	r.group(sorted)
	r.checkChain(sorted, all)
	for i, a := range r.List {
		r.checkRanks(a)
		r.cover(a)
		if i > 0 {
			r.compare(r.List[i-1], a)
		}
	}
	if !r.OK() {
		r.Head = ""
	}
	return r
}

// several reports parts that one checkpoint cannot have.
func (r *Report) several(parts []*Part, what string) {
	if len(parts) > 0 {
		r.fault("%s %s (such parts: %d): give the ledgers of one checkpoint", parts[0], what, len(parts))
	}
}

// String names a part in messages.
func (p *Part) String() string {
	return fmt.Sprintf("the part %.12s of rank %d in attempt %d", p.Digest, p.Rank, p.Attempt)
}

// group divides the parts into attempts, and sets where each ends.
func (r *Report) group(sorted []*Part) {
	for i, p := range sorted {
		if i == 0 || sorted[i-1].Attempt != p.Attempt {
			r.List = append(r.List, &Attempt{})
		}
		a := r.List[len(r.List)-1]
		a.Parts = append(a.Parts, p)
	}
	r.Attempts = len(r.List)
	last := r.List[r.Attempts-1]
	r.From, r.To, r.Head = sorted[0].Start, last.Parts[0].place(last.furthest()), last.head()
	end := r.To
	for _, a := range slices.Backward(r.List) {
		a.End = end
		if start := a.Parts[0].Start; start.Compare(end) < 0 {
			end = start
		}
	}
}

// furthest returns the end of the positions that the ranks have read, as a number.
func (a *Attempt) furthest() (end uint64) {
	for _, p := range a.Parts {
		end = max(end, p.number(p.Start))
		for _, r := range p.Read {
			end = max(end, p.span(r)[1])
		}
	}
	return end
}

// checkChain checks that each part continues existing parts of the attempt before, and that a part
// continues each, except those of the last attempt.
func (r *Report) checkChain(sorted []*Part, all map[string]*Part) {
	last, named := sorted[len(sorted)-1].Attempt, map[string]bool{}
	for _, p := range sorted {
		for _, d := range p.Previous {
			named[d] = true
			if before := all[d]; before == nil {
				r.fault("%s continues the part %.12s, which is missing or was changed", p, d)
			} else if before.Attempt != p.Attempt-1 {
				r.fault("%s continues a part of attempt %d", p, before.Attempt)
			}
		}
	}
	for _, p := range sorted {
		if p.Attempt < last && !named[p.Digest] {
			r.fault("%s is continued by no part", p)
		}
	}
}

// compare checks that an attempt reads the order of the attempt before it.
func (r *Report) compare(before, a *Attempt) {
	p, q := before.Parts[0], a.Parts[0]
	if p.Generation != q.Generation || PlanAt(p.Plans, q.Start) != PlanAt(q.Plans, q.Start) {
		r.fault("%s has another generation or plan than attempt %d", q, p.Attempt)
	}
}

// checkRanks checks that the parts of an attempt agree, and that there is one of each rank.
func (r *Report) checkRanks(a *Attempt) {
	first, next, more := a.Parts[0], uint64(0), []*Part(nil)
	lack := func(end uint64) {
		if next < end {
			r.fault("attempt %d of %d ranks lacks %d, from rank %d on", first.Attempt, first.Ranks, end-next, next)
		}
	}
	for _, p := range a.Parts {
		if p.Generation != first.Generation || !slices.Equal(p.Plans, first.Plans) || p.URL != first.URL || p.Ranks != first.Ranks || p.Positions != first.Positions || p.Start != first.Start {
			r.fault("%s differs from that of rank %d in generation, plans, URL, ranks, positions or start", p, first.Rank)
		}
		if p.Rank < next {
			more = append(more, p)
		}
		lack(p.Rank)
		next = p.Rank + 1
	}
	lack(first.Ranks)
	r.several(more, "is not the only one of this rank")
}

// cover checks the positions that each rank of an attempt has read until the attempt's end.
func (r *Report) cover(a *Attempt) {
	missing, doubled, first := map[span][]uint64{}, map[span][]uint64{}, a.Parts[0]
	for _, p := range a.Parts {
		next, end := p.number(p.Start), p.number(a.End)
		for _, in := range p.sorted(p.Read) {
			from, to := min(in[0], end), min(in[1], end)
			note(missing, span{next, from}, p.Rank)
			note(doubled, span{from, min(next, to)}, p.Rank)
			next = max(next, to)
		}
		note(missing, span{next, end}, p.Rank)
		r.Filtered += p.count(p.Filtered, end)
		r.Failed += p.count(p.Failed, end)
		r.Replaced += p.count(p.Replaced, end)
	}
	begin, end := first.number(first.Start), first.number(a.End)
	r.Positions += max(end, begin) - begin
	r.RolledBack += max(a.furthest(), end) - max(end, begin)
	r.Missing = append(r.Missing, gaps(first, missing)...)
	r.Doubled = append(r.Doubled, gaps(first, doubled)...)
}

// note adds a rank to the positions that it lacks or repeats.
func note(gaps map[span][]uint64, s span, rank uint64) {
	if s[0] < s[1] {
		gaps[s] = append(gaps[s], rank)
	}
}

// gaps returns the gaps of the attempt of a part in the order of their positions.
func gaps(p *Part, of map[span][]uint64) (list []Gap) {
	for _, s := range slices.SortedFunc(maps.Keys(of), compareSpans) {
		list = append(list, Gap{p.Attempt, p.place(s[0]), p.place(s[1]), slices.Compact(of[s])})
	}
	return list
}

// head returns the digest of the attempt: that of the digests of its parts, ascending, each followed
// by a line feed.
func (a *Attempt) head() string {
	var list []string
	for _, p := range a.Parts {
		list = append(list, p.Digest+"\n")
	}
	slices.Sort(list)
	return digest([]byte(strings.Join(list, "")))
}

// span is the numbers from the first to before the second. Positions are numbered from the beginning
// of the run.
type span [2]uint64

func compareSpans(a, b span) int { return slices.Compare(a[:], b[:]) }

// number returns the number of a place. It is the greatest number if another part has a place beyond it.
func (p *Part) number(at Place) uint64 {
	high, low := bits.Mul64(at[0], p.Positions)
	sum, carry := bits.Add64(low, min(at[1], p.Positions), 0)
	if high+carry > 0 {
		return math.MaxUint64
	}
	return sum
}

// place is the inverse of number.
func (p *Part) place(number uint64) Place {
	n := max(p.Positions, 1)
	return Place{number / n, number % n}
}

func (p *Part) span(r Range) span {
	return span{p.number(Place{r[0], r[1]}), p.number(Place{r[0], r[2]})}
}

// sorted returns the numbers of a list of positions, ascending.
func (p *Part) sorted(list []Range) []span {
	out := make([]span, len(list))
	for i, r := range list {
		out[i] = p.span(r)
	}
	slices.SortFunc(out, compareSpans)
	return out
}

// spans returns the numbers of a list of positions as disjoint spans, ascending.
func (p *Part) spans(list []Range) (set []span) {
	for _, s := range p.sorted(list) {
		if n := len(set); n > 0 && s[0] <= set[n-1][1] {
			set[n-1][1] = max(set[n-1][1], s[1])
		} else {
			set = append(set, s)
		}
	}
	return set
}

// count returns how many positions of a list are before a number.
func (p *Part) count(list []Range, end uint64) (n uint64) {
	for _, s := range p.spans(list) {
		n += min(s[1], end) - min(s[0], end)
	}
	return n
}

// contain reports whether one of the disjoint spans of a set contains another span.
func contain(set []span, s span) bool {
	i, found := slices.BinarySearchFunc(set, s[0], func(t span, n uint64) int { return cmp.Compare(t[0], n) })
	if !found {
		i--
	}
	return i >= 0 && s[1] <= set[i][1]
}
