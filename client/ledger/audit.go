package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	maxEpochs = 1 << 20 // epochs of an attempt that Audit checks
	maxGaps   = 1000    // gaps of a rank in an attempt that Audit lists
)

// Gap is positions that some ranks have not read, or have read more than once.
type Gap struct {
	Attempt int      `json:"attempt"`
	Epoch   uint64   `json:"epoch"`
	First   uint64   `json:"first"`
	End     uint64   `json:"end"`
	Ranks   []uint64 `json:"ranks"`
}

// Report is the result of Audit.
type Report struct {
	Parts      int      `json:"parts"`
	Attempts   int      `json:"attempts"`
	From       Place    `json:"from"`
	To         Place    `json:"to"`
	Positions  uint64   `json:"positions"`   // of which all ranks have read their share
	Lacking    uint64   `json:"lacking"`     // of which some rank has not
	RolledBack uint64   `json:"rolled_back"` // read before a resume from an earlier position, and read again after it
	Filtered   uint64   `json:"filtered"`
	Failed     uint64   `json:"failed"`
	Replaced   uint64   `json:"replaced"`
	Missing    []Gap    `json:"missing"`
	Doubled    []Gap    `json:"doubled"`
	Faults     []string `json:"faults"` // of the parts and of their chain
	Head       string   `json:"head"`   // digest of the parts of the last attempt

	List []*Attempt `json:"-"` // the attempts, the first one first
}

// OK reports whether the ledgers cover each position once.
func (r *Report) OK() bool { return len(r.Missing)+len(r.Doubled)+len(r.Faults) == 0 }

func (r *Report) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// Attempt holds the parts of all ranks between two resumes of a run.
type Attempt struct {
	Number int
	Parts  []*Part // by rank; one if there are no faults
	End    Place   // start of the first later attempt, which read the positions from there again
}

// Start is the place at which the attempt began.
func (a *Attempt) Start() Place { return a.Parts[0].Start }

// Omission returns why the reader of a rank omitted or changed a sample that it read: "filtered",
// "failed", "replaced", or "" if it yielded the sample unchanged. ok is false if the rank has not
// read the position in this attempt.
func (a *Attempt) Omission(rank uint64, at Place) (why string, ok bool) {
	for _, p := range a.Parts {
		if p.Rank != rank || at.Compare(a.End) >= 0 || !ranges(p.Read).has(at) {
			continue
		}
		for _, o := range []struct {
			why string
			in  []Range
		}{{"filtered", p.Filtered}, {"failed", p.Failed}, {"replaced", p.Replaced}} {
			if ranges(o.in).has(at) {
				return o.why, true
			}
		}
		return "", true
	}
	return "", false
}

// Audit checks that the parts of all ranks of a run cover each position of the run once. Parts are
// in any order.
func Audit(parts []Part) Report {
	r := Report{Missing: []Gap{}, Doubled: []Gap{}, Faults: []string{}}
	all := r.distinct(parts)
	if r.Parts = len(all); r.Parts == 0 {
		r.fault("no parts")
		return r
	}
	r.checkChain(all)
	r.List = r.attempts(all)
	r.Attempts = len(r.List)
	last := r.List[r.Attempts-1]
	r.From, r.To, r.Head = r.List[0].Start(), last.End, last.head()
	for _, a := range r.List {
		r.From = least(r.From, a.Start())
		r.cover(a)
	}
	return r
}

// distinct returns the parts by digest, and reports repeated ones.
func (r *Report) distinct(parts []Part) map[string]*Part {
	all := make(map[string]*Part, len(parts))
	for i := range parts {
		p := &parts[i]
		if all[p.Digest] != nil {
			r.fault("%s is given twice", p)
		}
		all[p.Digest] = p
	}
	return all
}

// String names a part in messages.
func (p *Part) String() string {
	return fmt.Sprintf("the part %.12s of rank %d in attempt %d", p.Digest, p.Rank, p.Attempt)
}

// checkChain checks that each part names existing parts of the attempt before, and that each part
// is named if there is a later attempt.
func (r *Report) checkChain(all map[string]*Part) {
	named, last := map[string]bool{}, 0
	for _, p := range sorted(all) {
		last = max(last, p.Attempt)
		for _, d := range p.Previous {
			named[d] = true
			switch before := all[d]; {
			case before == nil:
				r.fault("%s continues the part %.12s, which is missing or changed", p, d)
			case before.Attempt != p.Attempt-1:
				r.fault("%s continues a part of attempt %d", p, before.Attempt)
			case before.Generation != p.Generation || before.Plan != p.Plan:
				r.fault("%s is of another run than the part that it continues", p)
			}
		}
	}
	for _, p := range sorted(all) {
		if p.Attempt < last && !named[p.Digest] {
			r.fault("%s is continued by no part", p)
		}
	}
}

// sorted returns parts by attempt, rank and digest.
func sorted(all map[string]*Part) []*Part {
	return slices.SortedFunc(maps.Values(all), func(a, b *Part) int {
		if a.Attempt != b.Attempt {
			return a.Attempt - b.Attempt
		}
		if c := compare(a.Rank, b.Rank, 0, 0); c != 0 {
			return c
		}
		return strings.Compare(a.Digest, b.Digest)
	})
}

// attempts groups the parts, and checks that those of an attempt agree.
func (r *Report) attempts(all map[string]*Part) (list []*Attempt) {
	for _, p := range sorted(all) {
		if len(list) == 0 || list[len(list)-1].Number != p.Attempt {
			list = append(list, &Attempt{Number: p.Attempt})
		}
		a := list[len(list)-1]
		a.Parts = append(a.Parts, p)
		if f := a.Parts[0]; p.Generation != f.Generation || p.Plan != f.Plan || p.URL != f.URL || p.Ranks != f.Ranks || p.Positions != f.Positions || p.Start != f.Start {
			r.fault("%s differs from that of rank %d in generation, plan, URL, ranks, positions or start", p, f.Rank)
		}
	}
	end := list[len(list)-1].furthest()
	for _, a := range slices.Backward(list) {
		a.End, end = end, least(end, a.Start())
	}
	return list
}

func least(p, q Place) Place {
	if q.Compare(p) < 0 {
		return q
	}
	return p
}

// furthest returns the place after the last position that a rank has read.
func (a *Attempt) furthest() Place {
	end := a.Start()
	for _, p := range a.Parts {
		for _, r := range p.Read {
			if at := (Place{r.Epoch, r.End}); at.Compare(end) > 0 {
				end = at
			}
		}
	}
	if end.Position == a.Parts[0].Positions {
		return Place{end.Epoch + 1, 0}
	}
	return end
}

// cover checks the positions that the ranks of an attempt have read before its end.
func (r *Report) cover(a *Attempt) {
	first := a.Parts[0]
	if first.Start.Compare(a.End) < 0 && a.End.Epoch-first.Start.Epoch >= maxEpochs {
		r.fault("attempt %d has more than %d epochs", a.Number, maxEpochs)
		return
	}
	want := between(first.Start, a.End, first.Positions)
	missing, doubled, whole := map[Range][]uint64{}, map[Range][]uint64{}, want
	var beyond runs
	next := uint64(0) // the rank that follows in a complete list
	for _, p := range a.Parts {
		if p.Rank < next {
			r.fault("%s: another part is of the same rank", p)
		}
		if p.Rank > next {
			whole = r.lack(a, next, p.Rank-1)
		}
		next = p.Rank + 1
		read, twice := join(p.Read)
		kept := read.before(a.End)
		rest := want.without(kept)
		whole = whole.without(rest)
		if again := read.without(kept); len(again) > 0 {
			beyond = ranges(append(beyond, again...))
		}
		note(missing, rest, p.Rank)
		note(doubled, twice.before(a.End), p.Rank)
		r.Filtered += ranges(p.Filtered).before(a.End).positions()
		r.Failed += ranges(p.Failed).before(a.End).positions()
		r.Replaced += ranges(p.Replaced).before(a.End).positions()
	}
	if next < first.Ranks {
		whole = r.lack(a, next, first.Ranks-1)
	}
	r.RolledBack += beyond.positions()
	r.Positions += whole.positions()
	r.Lacking += want.positions() - whole.positions()
	r.Missing = append(r.Missing, gaps(a.Number, missing)...)
	r.Doubled = append(r.Doubled, gaps(a.Number, doubled)...)
}

// lack reports ranks without a part. It returns the positions that all ranks have read: none.
func (r *Report) lack(a *Attempt, first, last uint64) runs {
	r.fault("attempt %d: no part of the ranks %d to %d of %d", a.Number, first, last, a.Parts[0].Ranks)
	return nil
}

// note adds a rank to the first gaps of a set.
func note(gaps map[Range][]uint64, set runs, rank uint64) {
	for _, g := range set[:min(len(set), maxGaps)] {
		gaps[g] = append(gaps[g], rank)
	}
}

// gaps returns the gaps of an attempt in the order of their positions.
func gaps(attempt int, of map[Range][]uint64) []Gap {
	list := make([]Gap, 0, len(of))
	for r, ranks := range of {
		list = append(list, Gap{attempt, r.Epoch, r.First, r.End, ranks})
	}
	slices.SortFunc(list, func(a, b Gap) int {
		if c := compare(a.Epoch, b.Epoch, a.First, b.First); c != 0 {
			return c
		}
		return compare(a.End, b.End, a.Ranks[0], b.Ranks[0])
	})
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
	return Digest([]byte(strings.Join(list, "")))
}
