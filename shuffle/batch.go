package shuffle

// Tail is the policy for samples that do not fill the last batch.
type Tail string

// The tail policies.
const (
	Short Tail = "short" // the last batch holds the remaining samples
	Drop  Tail = "drop"  // the remaining samples are omitted
	Pad   Tail = "pad"   // the last batch is filled: position S+i is position i mod S of the same epoch
)

// Sharing is how the ranks share a global batch.
type Sharing string

// The ways to share.
const (
	Contiguous Sharing = ""         // each rank gets a contiguous range of the batch (Batching.Share)
	Locality   Sharing = "locality" // each group of ranks gets the samples of its home, as far as shares stay equal (Epoch.DealHomes)
)

// Batching divides an epoch of Samples samples into global batches, and each global batch into one
// share per rank.
type Batching struct {
	Samples   uint64
	BatchSize uint64 // samples of a global batch, at least 1
	Tail      Tail
	Skip      uint64 // samples at the start of a batch that no rank gets; below the size of the batch
}

// Batches returns the number of global batches of an epoch.
func (b Batching) Batches() uint64 {
	if b.BatchSize == 0 {
		return 0
	}
	n := b.Samples / b.BatchSize
	if b.Tail != Drop && b.Samples%b.BatchSize != 0 {
		n++
	}
	return n
}

// Share is one rank's part of one global batch: the positions First to First+Count-1. Positions at
// or beyond S wrap: position S+i is position i mod S.
type Share struct {
	First, Count uint64
	Padded       uint64 // number of samples in Count that repeat earlier samples of the epoch
}

// Share returns the share of a rank of worldSize in batch m < Batches(). Of the n samples of the
// batch after Skip these are the samples from floor(rank*n/worldSize) to
// floor((rank+1)*n/worldSize). The share of a batch or rank that does not exist is zero.
func (b Batching) Share(m, rank, worldSize uint64) Share {
	if m >= b.Batches() || rank >= worldSize {
		return Share{}
	}
	first, n := m*b.BatchSize, b.BatchSize
	if b.Tail != Pad {
		n = min(n, b.Samples-first)
	}
	first, n = first+b.Skip, n-min(b.Skip, n)
	lo, hi := mulDiv(rank, n, worldSize), mulDiv(rank+1, n, worldSize)
	s := Share{First: first + lo, Count: hi - lo}
	if end := s.First + s.Count; end > b.Samples {
		s.Padded = min(s.Count, end-b.Samples)
	}
	return s
}

// Cursor is the position of a reader, which a data path uses to prefetch. It affects speed, never
// the delivered bytes. The zero Cursor belongs to no plan.
type Cursor struct {
	Plan      *Plan  `json:"-"`
	Epoch     *Epoch `json:"-"`
	First     uint64 // first position of the batch being read
	End       uint64 // position after the last sample of the global batch
	BatchSize uint64
	Rank      uint64 // the reader's rank, of WorldSize; WorldSize 0 counts as 1
	WorldSize uint64
	Sharing   Sharing
	Homes     uint64 // for Locality: number of groups of ranks; 0 counts as WorldSize
	Dealt     bool   // shares depend on the lengths of samples (Deal), which are not part of the plan
	Block     uint64 `json:",omitempty"` // samples of a block of buckets, a multiple of BatchSize; 0: no buckets
	Tail      Tail

	Parts []Cursor `json:"-"` // for a mixture, which has no plan of its own: the reader's position in each source
}

// Later appends to dst the samples that this reader gets n global batches after the current one, in
// the same epoch. ok is false if the epoch ends earlier. It is also false if the plan does not
// determine the samples: shares dealt by length, buckets, importance, a padded batch, a subset.
func (c Cursor) Later(dst []uint64, n uint64) (samples []uint64, ok bool) {
	if c.Plan == nil || c.Epoch == nil || c.BatchSize == 0 || c.Dealt || c.Block > 0 || c.Plan.weights != nil || c.Plan.members != nil {
		return dst, false
	}
	s, ranks := c.Plan.samples, max(1, c.WorldSize)
	if c.First >= s || n > (s-1-c.First)/c.BatchSize || c.Rank >= ranks {
		return dst, false
	}
	first := c.First + n*c.BatchSize
	batch := Share{First: first, Count: min(c.BatchSize, s-first)}
	if batch.Count < c.BatchSize && c.Tail != Short && c.Tail != "" {
		return dst, false // omitted or padded
	}
	if c.Sharing != Locality {
		lo, hi := mulDiv(c.Rank, batch.Count, ranks), mulDiv(c.Rank+1, batch.Count, ranks)
		return c.Epoch.Append(dst, first+lo, first+hi), true
	}
	for _, place := range c.Epoch.DealHomes(batch, c.Rank, ranks, c.homes()) {
		dst = append(dst, c.Epoch.At(first+uint64(place)))
	}
	return dst, true
}

// BlockOf returns the positions among which buckets move the sample at a position, or only the
// position itself.
func (c Cursor) BlockOf(position uint64) (from, to uint64) {
	if c.Block == 0 {
		return position, position + 1
	}
	b := Buckets{Batches: c.Block / c.BatchSize, BatchSize: c.BatchSize, Samples: c.Plan.samples}
	block, ok := b.Block(position)
	if !ok {
		return position, position + 1
	}
	return b.Range(block)
}

// homes returns the number of groups of ranks for shares that follow homes.
func (c Cursor) homes() uint64 {
	if c.Homes == 0 {
		return max(1, c.WorldSize)
	}
	return c.Homes
}

// Group returns the group of this reader's rank and the number of groups, which is 1 unless shares
// follow homes.
func (c Cursor) Group() (group, of uint64) {
	ranks := max(1, c.WorldSize)
	if c.Sharing != Locality || c.Rank >= ranks {
		return 0, 1
	}
	return mulDiv(c.Rank, c.homes(), ranks), c.homes()
}
