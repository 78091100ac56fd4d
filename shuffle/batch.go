package shuffle

// Tail says what becomes of the samples that do not fill the last batch.
type Tail string

// The tail policies.
const (
	Short Tail = "short" // the last batch holds the rest
	Drop  Tail = "drop"  // the rest is left out
	Pad   Tail = "pad"   // the last batch is filled: position S+i is position i mod S of the same epoch
)

// Batching cuts an epoch of Samples samples into global batches, and those into the shares of ranks.
type Batching struct {
	Samples   uint64
	BatchSize uint64 // samples of a global batch, at least 1
	Tail      Tail
}

// Batches returns how many global batches an epoch has.
func (b Batching) Batches() uint64 { return 0 }

// Share is what one rank consumes of one global batch: the positions First to First+Count-1, of
// which those at or beyond S wrap (position S+i is position i mod S).
type Share struct {
	First, Count uint64
	Padded       uint64 // how many of Count repeat samples that the epoch has delivered already
}

// Share returns the share of a rank of worldSize in batch m < Batches(): the samples from
// floor(rank*n/worldSize) to floor((rank+1)*n/worldSize) of the batch's n.
func (b Batching) Share(m, rank, worldSize uint64) Share { return Share{} }

// Cursor tells a data path where a reader stands, so that it can fetch ahead of it. It
// changes speed, never bytes. The zero Cursor belongs to no plan.
type Cursor struct {
	Plan      *Plan
	Epoch     *Epoch
	First     uint64 // first position of the batch being read
	End       uint64 // position after the last one of the global batch
	BatchSize uint64
}
