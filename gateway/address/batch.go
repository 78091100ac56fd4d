package address

import (
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// Batch is the address of one rank's share of a global batch.
type Batch struct {
	Plan
	Epoch  uint64 // from 0
	Number uint64 // of the batch in its epoch, from 0
}

// DecodeBatch reads a batch from a query and from the epoch and batch of its path.
func DecodeBatch(q *Query, d Dataset, epoch, batch string) Batch {
	b := DecodeEpoch(q, d, epoch)
	b.Number = q.Decimal("batch", batch, 0, math.MaxUint64)
	return b
}

// DecodeEpoch reads the first batch of an epoch.
func DecodeEpoch(q *Query, d Dataset, epoch string) Batch {
	b := Batch{Plan: DecodePlan(q, d)}
	b.Epoch = q.Decimal("epoch", epoch, 0, math.MaxUint64)
	return b
}

// CheckEnd refuses a batch past the end of its epoch.
func (b Batch) CheckEnd() error {
	n := b.Batching().Batches()
	if b.Number < n {
		return nil
	}
	r := Refuse(EndOfEpoch, "the epoch has %d batches, numbered from 0", n)
	r.Batches = &n
	return r
}

// Batching is how an epoch is cut into global batches.
func (p Plan) Batching() shuffle.Batching {
	return shuffle.Batching{Samples: p.Samples, BatchSize: p.BatchSize, Tail: p.Tail}
}

// Deals reports whether the samples of a global batch are dealt by length. One rank takes them all.
func (p Plan) Deals() bool { return p.Balance == BalanceBytes && p.WorldSize > 1 }

// Follows reports whether shares follow homes. With one home the shares are the same as without.
func (p Plan) Follows() bool { return p.Split == shuffle.Locality && p.Homes > 1 }

// Scattered reports whether the share of a rank is no contiguous run of the global batch.
func (p Plan) Scattered() bool { return p.Deals() || p.Follows() }

// Share returns the rank's share of the global batch, and the positions that must be located to find it: where
// shares are scattered, those of the whole global batch. A scattered share has no First, and its padding is known
// only once it is located.
func (b Batch) Share() (share, positions shuffle.Share) {
	share = b.Batching().Share(b.Number, b.Rank, b.WorldSize)
	if !b.Scattered() {
		return share, share
	}
	positions = b.Batching().Share(b.Number, 0, 1)
	if b.Follows() {
		return shuffle.Share{First: positions.First, Count: share.Count}, positions
	}
	return shuffle.Share{First: positions.First, Count: dealt(positions.Count, b.Rank, b.WorldSize)}, positions
}

// dealt returns how many of n samples a rank gets where they are dealt to and fro, whatever their lengths. Each full
// turn gives every rank one sample. The last turn is partial; an odd turn starts at the last rank.
func dealt(n, rank, worldSize uint64) uint64 {
	turns, rest := n/worldSize, n%worldSize
	if turns%2 == 1 {
		rank = worldSize - 1 - rank
	}
	if rank < rest {
		turns++
	}
	return turns
}
