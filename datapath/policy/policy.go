// Package policy computes the data path's decisions about reads: which chunks are read whole, which
// reads are joined, and how much is prefetched. It uses no data, locks or clocks, so gateways and
// simulations share its decisions.
package policy

// Names of the rules that choose which chunk to evict among those that no reader needs soon.
const (
	Plan = "plan" // the chunk whose next use is last, over all known readers
	LRU  = "lru"  // the chunk that was used longest ago
)

// Names returns the names of all rules, the default first.
func Names() []string { return []string{Plan, LRU} }

// Concurrent reads and concurrent writes of the disk tier. A chunk stays in memory while it is
// written.
const (
	DiskReads   = 8
	DiskWriters = 2
)

// AskShare is the divisor of the budget for all batches that wait for other gateways: they get
// half. The other half is for chunks that a gateway loads to answer peers. Without the limit, the
// bodies of many batches could fill the memory of all gateways. Then no owner could load a chunk,
// and each gateway would read all chunks from the store.
const AskShare = 2

// Spread is the factor by which the chunks that a gateway owns may exceed its share: placement
// balances the chunks within this factor.
const Spread = 1.07

// Ahead returns how much of a budget prefetched chunks may fill: seven tenths. The rest is for
// bodies.
func Ahead(budget int64) int64 { return budget / 10 * 7 }

// Budget returns the budget for which Ahead returns the given bytes.
func Budget(ahead int64) int64 { return ahead / 7 * 10 }

// Early returns how many places of the gate may prefetch for a reader that waits for its first
// batch: a quarter. With so few, the reader waits at most a third longer, but the link stays busy
// once its chunks have arrived.
func Early(places int) int { return max(places/4, 1) }

// FirstPart returns the length of one store read while a first batch waits for whole chunks of
// total bytes: one read for each place of the gate that Early leaves, since the link is idle. Each
// read costs a request, so its length is at least an eighth of part.
func FirstPart(total, part int64, places int) int64 {
	streams := int64(max(places-Early(places), 1))
	return min(part, max(total/streams, part/8, 1))
}

// First describes the missing chunks and samples of a reader's first batch.
type First struct {
	Reads, Bytes int64 // number and bytes of the reads by sample ranges
	Ahead        int64 // running reads by sample ranges for other first batches
	Own          int   // places for reads by sample ranges
	Stored       int64 // bytes of the whole chunks, as stored
	Part         int64 // maximum bytes of one store read
	Places       int   // places for reads of whole chunks
	Cost         int64 // cost of one more read
}

// ByRanges reports whether reading by sample ranges takes at most two thirds of the time of reading
// whole chunks. Nothing was prefetched for the batch, and it needs only a small part of its chunks.
// The whole chunks are prefetched meanwhile for the following batches, so each byte of a first
// batch is read at most twice. A smaller gain is not worth that.
func (f *First) ByRanges() bool {
	part := FirstPart(f.Stored, f.Part, f.Places)
	return part > f.Part/8 && 3*f.takes(f.Reads+f.Ahead, f.Bytes, f.Own) <= 2*f.takes((f.Stored+part-1)/part, f.Stored, f.Places)
}

// takes returns the time for the given reads and bytes in the given number of places, in bytes that
// one stream transfers meanwhile.
func (f *First) takes(reads, bytes int64, places int) int64 {
	streams := int64(places)
	return (reads+streams-1)/streams*f.Cost + bytes/min(reads, streams)
}

// Place is the location of a chunk in the store.
type Place struct {
	Shard          int
	Offset, Length int64
	Alone          bool // the chunk is never read together with another one
}

// Group splits a list of chunks, in ascending order, into groups that are adjacent in one shard.
// One store read of at most part bytes loads each group.
func Group[C any](chunks []C, place func(C) Place, part int64) [][]C {
	var groups [][]C
	var last Place
	var begin int
	var size int64
	for i, c := range chunks {
		p := place(c)
		if i > 0 && (last.Alone || p.Alone || p.Shard != last.Shard || p.Offset != last.Offset+last.Length || size+p.Length > part) {
			groups, begin, size = append(groups, chunks[begin:i:i]), i, 0
		}
		last, size = p, size+p.Length
	}
	if len(chunks) > 0 {
		groups = append(groups, chunks[begin:])
	}
	return groups
}

// Together returns a chunk, followed by the chunks behind it in the same shard for which takes
// returns true, up to the length of one read of at most part bytes.
func Together[C ~int | ~int32](chunk C, place func(C) Place, part int64, takes func(C) bool) []C {
	group := []C{chunk}
	for takes(chunk + C(len(group))) {
		longer := append(group, chunk+C(len(group)))
		if len(Group(longer, place, part)) > 1 {
			break
		}
		group = longer
	}
	return group
}

// Parts returns the number of reads for a length. Each read has about part bytes, at most 1.5 times
// part, and never more than most.
func Parts(length, part, most int64) int64 {
	return max((length+part/2)/part, (length+most-1)/most, 1)
}

// GapLimit is the longest gap, in bytes, between two ranges of one store read. At most one in nine
// bytes of a read is in gaps, so a batch read by ranges transfers at most 1.13 times its own bytes.
const GapLimit = 64 << 10

// Joins reports whether a read with the given numbers of needed and wasted bytes is extended to the
// next range, behind a gap. most is the maximum length of a read.
func Joins(wanted, wasted, gap, length, most int64) bool {
	return gap >= 0 && gap <= GapLimit && wasted+gap <= (wanted+length)/8 && wanted+wasted+gap+length <= most
}
