// Package policy decides by arithmetic what the data path reads: which chunks come whole, which reads are joined, and how much is done
// ahead of need. It knows no bytes, locks or clocks, so a gateway and a simulation run the same decisions.
package policy

// Ahead returns how much of a budget chunks may fill ahead of their readers: seven tenths. The rest is for bodies.
func Ahead(budget int64) int64 { return budget / 10 * 7 }

// Budget returns the budget of which so many bytes are what Ahead returns.
func Budget(ahead int64) int64 { return ahead / 7 * 10 }

// Early is how many places of the gate may work ahead of a reader that waits for its first batch, a quarter: so few
// that it waits a third longer at most, and enough that the line does not run dry when its chunks are there.
func Early(places int) int { return max(places/4, 1) }

// FirstPart is the length of one store read while a first batch waits for whole chunks of total bytes: one for each place of the gate
// that Early leaves it, since the line is idle. A read costs a request, so it is an eighth of part at least.
func FirstPart(total, part int64, places int) int64 {
	streams := int64(max(places-Early(places), 1))
	return min(part, max(total/streams, part/8, 1))
}

// First is what a reader's first batch needs of chunks that are not in memory.
type First struct {
	Reads, Bytes int64 // of its samples' own ranges
	Ahead        int64 // such reads of other first batches, under way
	Own          int   // places for such reads
	Stored       int64 // bytes of the whole chunks
	Part         int64 // bytes of one store read at most
	Places       int   // places for reads of whole chunks
	Cost         int64 // of one more read
}

// ByRanges reports whether the batch comes a third sooner by its samples' own ranges than by whole chunks. Nothing was fetched ahead of it,
// and of these chunks it needs little. They come meanwhile for the batches after it, so each byte of a first batch is
// read twice at most; a smaller gain is not worth that.
func (f *First) ByRanges() bool {
	part := FirstPart(f.Stored, f.Part, f.Places)
	return part > f.Part/8 && 3*f.takes(f.Reads+f.Ahead, f.Bytes, f.Own) <= 2*f.takes((f.Stored+part-1)/part, f.Stored, f.Places)
}

// takes returns how long reads of so many bytes take in so many places, in bytes that one stream brings meanwhile.
func (f *First) takes(reads, bytes int64, places int) int64 {
	streams := int64(places)
	return (reads+streams-1)/streams*f.Cost + bytes/min(reads, streams)
}

// Place says where a chunk is stored.
type Place struct {
	Shard          int
	Offset, Length int64
	Alone          bool // it is never read with another one
}

// Group cuts a list of chunks, in ascending order, into those that are neighbours in one shard and that one store read of
// at most part bytes brings.
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

// Parts returns in how many reads a length comes: of about part bytes, never more than half as much again and never more than most.
func Parts(length, part, most int64) int64 {
	return max((length+part/2)/part, (length+most-1)/most, 1)
}

// GapLimit is the longest gap, in bytes, between two ranges that one store read brings. At most one in nine of a
// read's bytes is of gaps, so a batch read by ranges never moves more than 1.13 times its own bytes.
const GapLimit = 64 << 10

// Joins reports whether a read of so many wanted bytes and wasted ones also brings the next range, behind a gap, where it may bring most.
func Joins(wanted, wasted, gap, length, most int64) bool {
	return gap >= 0 && gap <= GapLimit && wasted+gap <= (wanted+length)/8 && wanted+wasted+gap+length <= most
}
