package shuffle

// What a plan and an epoch hold, in bytes. An epoch keeps the order of the chunks, its inverse and sums over it.
const (
	overhead          = 1 << 10
	bytesPerPiece     = 16 // of a slot plan, which has at most as many pieces as chunks and lanes together
	bytesPerLane      = 28 // with the lane's first piece
	bytesPerEpochLane = 8
	bytesPerStratum   = 4
	bytesPerChunk     = 48 // in an epoch; of slot, for each piece
	bytesPerWeight    = 8  // for each chunk: a sum of weights in a plan, of draws in an epoch
)

// PlanBytes bounds the memory of a plan, without its epochs: slot keeps lanes and pieces, importance and subsets sums by
// chunk, strata one number a chunk.
func (p Params) PlanBytes(chunks, samples uint64) int64 {
	n := uint64(overhead)
	if p.Importance != "" || p.Subset != "" {
		n += bytesPerWeight * chunks
	}
	if p.Strata > 0 {
		n += bytesPerStratum * chunks
	}
	if p.Shuffle == Slot {
		n += p.laneBytes(chunks, samples)
	}
	return int64(n)
}

// EpochBytes bounds the memory of one prepared epoch. With importance each epoch has draws and lanes of its own.
func (p Params) EpochBytes(chunks, samples uint64) int64 {
	lanes := p.Lanes(samples)
	n := overhead + bytesPerChunk*(chunks+lanes) + bytesPerEpochLane*lanes
	if p.Importance != "" {
		n += bytesPerWeight * chunks
		if p.Shuffle == Slot {
			n += p.laneBytes(chunks, samples)
		}
	}
	return int64(n)
}

func (p Params) laneBytes(chunks, samples uint64) uint64 {
	lanes := p.Lanes(samples)
	return bytesPerPiece*(chunks+lanes) + bytesPerLane*lanes
}

// Lanes returns how many lanes a plan of some samples has, at most: 0 unless it is a slot plan.
func (p Params) Lanes(samples uint64) uint64 {
	if p.Shuffle != Slot {
		return 0
	}
	return min(p.Window, samples)
}
