package shuffle

// RankVariance returns the BatchVariance of the share of one rank if shares follow homes
// (share=locality). It averages over the ranks, relative to the same number of samples drawn
// independently from the whole dataset. A single rank's samples, which batch normalization uses,
// are less mixed than the batch, since the rank's homes contain only a part of the chunks. It deals
// real batches of several epochs, at most 64 of them and 2^18 samples. ok is false if shares cannot
// follow these homes, or have no two samples to compare.
func (p *Plan) RankVariance(batching Batching, worldSize, homes uint64) (BatchVariance, bool) {
	batches := batching.Samples / max(1, batching.BatchSize) // full batches
	if p.CheckSharing(worldSize, homes) != nil || batches == 0 || p.samples < 2 {
		return BatchVariance{}, false
	}
	size := min(batching.BatchSize, movedSamples)
	looks := min(movedBatches, max(1, movedSamples/size))
	var sum [3]float64
	var all float64
	var samples []uint64
	choice := newKey("looks")
	for i, epochs := uint64(0), min(looks, rankEpochs); i < epochs; i++ {
		e := p.Epoch(i)
		sets := e.plan.sortings() // with importance, the sortings of an epoch's draws
		for k := mulDiv(i, looks, epochs); k < mulDiv(i+1, looks, epochs); k++ {
			batch := Share{First: batching.BatchSize * choice.draw(k, batches), Count: size}
			samples = e.Append(samples[:0], batch.First, batch.First+size)
			for rank := range worldSize {
				share := e.DealHomes(batch, rank, worldSize, homes)
				all += float64(len(share))
				for c := range sets {
					sum[c] += sets[c].spread(samples, share)
				}
			}
		}
	}
	if all == 0 {
		return BatchVariance{}, false
	}
	return BatchVariance{Chunk: sum[0] / all, Ten: sum[1] / all, Hundred: sum[2] / all}, true
}

// rankEpochs is the number of epochs from which RankVariance takes batches.
const rankEpochs = 8

// spread returns the distance of the samples of a share, relative to a single sample drawn
// independently.
func (s *sorting) spread(samples []uint64, share []int) float64 {
	for _, place := range share {
		x := samples[place]
		s.each(x, x+1, s.add)
	}
	return s.distance(float64(len(share))) / (1 - s.alike)
}
