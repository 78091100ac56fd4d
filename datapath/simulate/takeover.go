package simulate

import (
	"fmt"

	"github.com/millrace-data/millrace/shuffle"
)

// GatewayOf returns which of some gateways a rank reads from where ranks have homes: floor(rank*gateways/ranks), as clients do
// (client.HomeByRank).
func GatewayOf(rank, ranks uint64, gateways int) int {
	return int(rank * uint64(gateways) / ranks) // fewer than 2^32 of both
}

// Takeover is what gateways that share nothing read from the store once more when another number of them takes the place
// of those that a job began with. The job's homes stay, so batches and shares are the same; but some ranks read from another
// gateway, which does not hold what is at home with them.
type Takeover struct {
	Chunks int   // a chunk that two gateways read anew counts twice
	Bytes  int64 // of these chunks, as the store has them
}

// TakeOver returns what is read once more when after gateways take the place of before. Each gateway has room for what its ranks
// read, and gateway i is the same one in both numbers. Samples that move between homes in every epoch (shuffle.Plan.Moved) are not
// in it.
func (d *Data) TakeOver(plan *shuffle.Plan, ranks, homes uint64, before, after int) Takeover {
	old, now := gatewaysOf(ranks, homes, before), gatewaysOf(ranks, homes, after)
	var t Takeover
	for i := range d.Chunks {
		first, last, ok := plan.HomeGroups(uint64(i), homes)
		if !ok {
			continue
		}
		held := span{old[first].from, old[last].to}
		wanted := span{now[first].from, now[last].to}
		n := wanted.without(held)
		t.Chunks += n
		t.Bytes += int64(n) * d.Chunks[i].stored()
	}
	return t
}

// span is some gateways, from the first to the last of them.
type span struct{ from, to int }

// gatewaysOf returns for each home the gateways that its ranks read from. Ranks are in groups, one for each home.
func gatewaysOf(ranks, homes uint64, gateways int) []span {
	of := make([]span, homes)
	for rank, next := uint64(0), uint64(0); rank < ranks; rank++ {
		home, at := rank*homes/ranks, GatewayOf(rank, ranks, gateways)
		if home == next {
			of[home].from = at
			next++
		}
		of[home].to = at
	}
	return of
}

// without counts the gateways of a span that another one lacks.
func (s span) without(other span) int {
	both := min(s.to, other.to) - max(s.from, other.from) + 1
	return s.to - s.from + 1 - max(both, 0)
}

// takeoverAdvice says what is read again when the number of gateways changes under a job: from the first number of the list to
// each other one.
func takeoverAdvice(d *Data, results []Result) []string {
	s := &results[0].Setting
	numbers := distinct(results, func(s *Setting) int64 { return int64(s.Gateways) })
	if !s.Alone || s.Sharing != shuffle.Locality || len(numbers) < 2 {
		return nil
	}
	plan, err := shuffle.NewPlan(s.Order, d.First)
	if err != nil {
		return nil // no result would be here
	}
	var lines []string
	for _, n := range numbers {
		if int(n) == s.Gateways {
			continue
		}
		t := d.TakeOver(plan, uint64(s.Ranks), uint64(s.Ranks), s.Gateways, int(n))
		lines = append(lines, fmt.Sprintf("Gateways that change under a job: %d in place of %d, with its homes as they are, read %s of the store once more, %s of the data.",
			n, s.Gateways, Bytes(t.Bytes), percent(t.Bytes, d.Stored())))
	}
	return lines
}

// Stored is how many bytes all chunks take in the store.
func (d *Data) Stored() (n int64) {
	for i := range d.Chunks {
		n += d.Chunks[i].stored()
	}
	return n
}
