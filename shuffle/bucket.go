package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// MaxBlock limits the samples of a block of buckets.
const MaxBlock = 1 << 20

// Buckets divides the whole batches of an epoch into blocks. Within a block, batches consist of
// samples of similar cost, as in length-grouped batches (docs/spec/order.md, section 10).
type Buckets struct {
	Batches   uint64 // K, the number of batches of a block, except the last
	BatchSize uint64
	Samples   uint64 // samples of the epoch
}

// Block returns the block of a position. ok is false after the last whole batch, where positions
// keep their samples.
func (b Buckets) Block(position uint64) (block uint64, ok bool) {
	batch := position / b.BatchSize
	return batch / b.Batches, batch < b.Samples/b.BatchSize
}

// Range returns the first position of a block, and the position after its last one.
func (b Buckets) Range(block uint64) (from, to uint64) {
	from = block * b.Batches * b.BatchSize
	return from, min(from+b.Batches*b.BatchSize, b.Samples/b.BatchSize*b.BatchSize)
}

// Arrange returns the new order of a block: the former place in the block of the sample at each
// place. costs has the cost of the sample at each former place; 0 counts as 1.
func (b Buckets) Arrange(seed, epoch, block uint64, costs []uint32) []uint32 {
	ascending := make([]uint64, len(costs))
	for i, c := range costs {
		ascending[i] = uint64(max(c, 1))<<32 | uint64(i)
	}
	slices.Sort(ascending)
	places := make([]uint32, 0, len(costs))
	batches := newPerm(newKey("bucket", seed, epoch, block), uint64(len(costs))/b.BatchSize)
	for q := range batches.n {
		from, first := batches.at(q)*b.BatchSize, len(places)
		for _, word := range ascending[from : from+b.BatchSize] {
			places = append(places, uint32(word))
		}
		slices.Sort(places[first:])
	}
	return places
}

// BucketDigest returns the order digest of a plan or mixture with buckets, from its digest without
// them. cost names the costs.
func BucketDigest(digest string, batches, batchSize uint64, cost string) string {
	text := []byte(digest)
	words := []uint64{uint64(newKey("bucket")), batches, batchSize, uint64(len(cost))}
	for _, w := range slices.AppendSeq(words, packed(cost)) {
		text = binary.LittleEndian.AppendUint64(text, w)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
