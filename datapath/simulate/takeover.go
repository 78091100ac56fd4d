package simulate

import "github.com/millrace-data/millrace/shuffle"

// GatewayOf returns the number of the gateway that a rank reads from if ranks have homes:
// floor(rank*gateways/ranks), as clients compute it (client.HomeByRank).
func GatewayOf(rank, ranks uint64, gateways int) int {
	return int(rank * uint64(gateways) / ranks) // both are below 2^32
}

// Takeover is the data that gateways without a common cache read again when their number changes
// during a job. The job's homes do not change, so batches and shares stay the same. But some ranks
// read from another gateway, which does not hold the chunks at home with them.
type Takeover struct {
	Chunks int   // a chunk that two gateways read again counts twice
	Bytes  int64 // stored bytes of these chunks
}

// TakeOver returns the data that is read again when the number of gateways changes from before to
// after. Each gateway has room for the chunks of its ranks, and gateway i is the same before and
// after. Samples that move between homes in every epoch (shuffle.Plan.Moved) are not included.
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

// span is an inclusive range of gateways.
type span struct{ from, to int }

// gatewaysOf returns, for each home, the gateways that its ranks read from. Ranks are divided into
// groups, one for each home.
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

// without returns the number of gateways of a span that another span does not contain.
func (s span) without(other span) int {
	both := min(s.to, other.to) - max(s.from, other.from) + 1
	return s.to - s.from + 1 - max(both, 0)
}

// Stored returns the number of bytes that all chunks take in the store.
func (d *Data) Stored() (n int64) {
	for i := range d.Chunks {
		n += d.Chunks[i].stored()
	}
	return n
}
