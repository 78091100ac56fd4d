package shuffle

import (
	"cmp"
	"fmt"
)

// MaxStrata limits the number of strata of a window order.
const MaxStrata = 1 << 16

// Params determines the order of every epoch, together with the chunks' sample counts. The JSON
// names are those of URLs.
type Params struct {
	Shuffle string `json:"shuffle"`
	Window  uint64 `json:"window,omitempty"` // chunks in a window (Window), or number of memory lanes M (Slot); ignored by other shuffles

	// Strata is the number of strata that the chunks are divided into (Window only); 0 is none.
	// Each row of the sequence takes one chunk of each stratum. A stratum is a home that
	// neither epoch nor seed changes. Strata divides Window.
	Strata uint64 `json:"strata,omitempty"`

	Seed uint64 `json:"seed,string"`

	// Importance is the name (hex digest) of a snapshot of weights by which an epoch's samples are
	// drawn; "" delivers every sample once. The weights themselves are passed to NewWeightedPlan.
	Importance string `json:"importance,omitempty"`

	// Subset names the subset of the dataset that epochs deliver; "" is all of it. Its members are
	// passed to NewSubsetPlan.
	Subset string `json:"subset,omitempty"`
}

// Compare orders parameters in lists: it returns -1, 0 or 1, and 0 only if they are equal.
func (p Params) Compare(q Params) int {
	return cmp.Or(
		cmp.Compare(p.Shuffle, q.Shuffle), cmp.Compare(p.Window, q.Window), cmp.Compare(p.Seed, q.Seed),
		cmp.Compare(p.Strata, q.Strata), cmp.Compare(p.Importance, q.Importance), cmp.Compare(p.Subset, q.Subset))
}

// words returns words for the order digest: the key of the name and the value of each parameter
// that differs from its neutral value.
func (p Params) words() []uint64 {
	var words []uint64
	if p.Strata > 0 {
		words = append(words, uint64(newKey("strata")), p.Strata)
	}
	return words
}

// Describe describes the order, without its seed and its samples.
func (p Params) Describe() string {
	switch {
	case p.Strata > 0:
		return fmt.Sprintf("%s %d in %d strata", p.Shuffle, p.Window, p.Strata)
	case UsesWindow(p.Shuffle):
		return fmt.Sprintf("%s %d", p.Shuffle, p.Window)
	}
	return p.Shuffle
}

// Check returns an error for an unknown shuffle, and for an invalid window or strata.
func (p Params) Check() error {
	switch {
	case p.Shuffle != None && p.Shuffle != Full && !UsesWindow(p.Shuffle):
		return fmt.Errorf("unknown shuffle %q: must be one of %s, %s, %s, %s", p.Shuffle, None, Window, Slot, Full)
	case UsesWindow(p.Shuffle) && p.Window == 0:
		return fmt.Errorf("shuffle %s: window is 0: must be at least 1", p.Shuffle)
	case p.Shuffle == Slot && p.Window > MaxLanes:
		return fmt.Errorf("shuffle %s: window is %d lanes: must be at most %d; to mix all chunks at once, use shuffle %s", Slot, p.Window, MaxLanes, Window)
	case p.Strata > 0 && p.Shuffle != Window:
		return fmt.Errorf("shuffle %s: strata is %d: must be 0, since only %s has strata", p.Shuffle, p.Strata, Window)
	case p.Strata > MaxStrata:
		return fmt.Errorf("shuffle %s: strata is %d: must be at most %d", p.Shuffle, p.Strata, MaxStrata)
	case p.Strata > 0 && p.Window%p.Strata != 0:
		return fmt.Errorf("shuffle %s: strata is %d: must divide the window, %d", p.Shuffle, p.Strata, p.Window)
	}
	return nil
}

// Memory of plans and epochs, in bytes. An epoch has the order of the chunks, its inverse and
// prefix sums.
const (
	overhead          = 1 << 10
	bytesPerPiece     = 16 // of a slot plan, which has at most one piece per chunk and per lane
	bytesPerLane      = 28 // including the lane's first piece
	bytesPerEpochLane = 8
	bytesPerStratum   = 4
	bytesPerChunk     = 48 // in an epoch; for Slot, for each piece
	bytesPerWeight    = 8  // for each chunk: a sum of weights in a plan, or of draws in an epoch
)

// PlanBytes returns an upper bound of the memory of a plan, without its epochs: slot has lanes and
// pieces, importance and subsets have sums by chunk, strata have one number per chunk.
func (p Params) PlanBytes(chunks, samples uint64) int64 {
	n := uint64(overhead)
	if p.Importance != "" || p.Subset != "" {
		n += bytesPerWeight * chunks
	}
	if p.Strata > 0 {
		n += bytesPerStratum * chunks
	}
	return int64(n + p.laneBytes(chunks, samples))
}

// EpochBytes returns an upper bound of the memory of one prepared epoch. With importance each epoch
// has its own draws and lanes.
func (p Params) EpochBytes(chunks, samples uint64) int64 {
	lanes := p.Lanes(samples)
	n := overhead + bytesPerChunk*(chunks+lanes) + bytesPerEpochLane*lanes
	if p.Importance != "" {
		n += bytesPerWeight*chunks + p.laneBytes(chunks, samples)
	}
	return int64(n)
}

func (p Params) laneBytes(chunks, samples uint64) uint64 {
	if p.Shuffle != Slot {
		return 0
	}
	lanes := p.Lanes(samples)
	return bytesPerPiece*(chunks+lanes) + bytesPerLane*lanes
}

// Lanes returns the maximum number of lanes of a plan with the given number of samples: 0 unless it
// is a slot plan.
func (p Params) Lanes(samples uint64) uint64 {
	if p.Shuffle != Slot {
		return 0
	}
	return min(p.Window, samples)
}
