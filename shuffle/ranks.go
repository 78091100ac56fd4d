package shuffle

import (
	"slices"
	"sort"
)

// RankOf returns the rank of worldSize whose share (Share) contains a position of an epoch.
func (b Batching) RankOf(position, worldSize uint64) uint64 {
	batch := b.Share(position/b.BatchSize, 0, 1)
	return rankOf(position-batch.First, batch.Count, worldSize)
}

// rankOf returns the rank of worldSize whose contiguous range of n places contains a place.
func rankOf(place, n, worldSize uint64) uint64 {
	return uint64(sort.Search(int(worldSize), func(rank int) bool { return mulDiv(uint64(rank)+1, n, worldSize) > place }))
}

// HomeRank returns the rank of worldSize whose share (DealHomes) contains a place of a global
// batch.
func (e *Epoch) HomeRank(batch Share, place int, worldSize, homes uint64) uint64 {
	at := place
	if e.plan.mostHomes() != 0 && homes > 1 {
		at = slices.Index(e.deal(batch, worldSize, homes).places, uint32(place))
	}
	return rankOf(uint64(at), batch.Count, worldSize)
}

// HomeRankAt is like HomeRank, for the shares of DealHomesAt.
func (e *Epoch) HomeRankAt(positions []uint64, place int, worldSize, homes uint64) uint64 {
	at := place
	if e.plan.mostHomes() != 0 && homes > 1 {
		at = slices.Index(e.dealAt(positions, worldSize, homes).places, uint32(place))
	}
	return rankOf(uint64(at), uint64(len(positions)), worldSize)
}
