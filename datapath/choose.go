// This file finds out where the chunks of a batch are, and decides which of them are read whole and
// which by the ranges of their samples.

package datapath

import (
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
)

// chooseReads splits the chunks of a request into those read whole and those read by the ranges of
// their samples.
func (s *Source) chooseReads(b *request) (whole, ranged []batch.ChunkRanges) {
	whole = b.chunks // without a copy if all chunks are read whole
	for i, c := range b.chunks {
		switch pays := s.pays(b, c); {
		case !pays && ranged == nil:
			whole, ranged = slices.Clone(b.chunks[:i]), append(ranged, c)
		case !pays:
			ranged = append(ranged, c)
		case ranged != nil:
			whole = append(whole, c)
		}
	}
	if b.visit != nil && b.visit.Opens {
		whole, ranged = s.first(b, whole, ranged)
	}
	return whole, ranged
}

// pays reports whether a chunk should be in memory as a whole.
func (s *Source) pays(b *request, c batch.ChunkRanges) bool {
	length := s.index.Length(c.Chunk)
	if s.index.Codec(c.Chunk) != codec.None || bytesOf(c) >= length-length/8 {
		return true
	}
	at := s.whereIs(c.Chunk)
	if at != fromDisk && s.objects(c.Chunk) > 1 {
		// Each sample of such a chunk is an object, and costs one read in any case. So the
		// batch waits for its own samples only, and prefetch reads the chunk.
		return at == inMemory
	}
	return at == inMemory || at == coming || s.used(b, c)
}

// used reports whether enough of a chunk will be used while it is in memory, according to the plans
// of the readers.
func (s *Source) used(b *request, c batch.ChunkRanges) bool {
	switch {
	case s.name != "" && s.owner(c.Chunk) != "":
		// Another member owns the chunk. But the peer that requests it may have a newer
		// view, or the owner has failed, and more requests for the chunk will follow. If
		// that takes no memory from readers, keep the chunk until the views agree.
		return b.origin != fromRank && (b.fits || s.path.spares(s.index.Length(c.Chunk)))
	case b.visit != nil && !b.visit.ComesFor(c.Chunk):
		// The chunk is read at another gateway, where the ranks that use the rest of it
		// read. In each epoch the ranks here need other samples of it.
		return false
	case b.fits:
		return true
	}
	coming := s.path.readers.NextUse(s, c.Chunk)
	switch {
	case b.next != unknown && coming.Soon:
		return s.worth(c.Chunk, max(coming.Samples, uint64(len(c.Ranges))))
	case b.next == unfollowed && s.path.spares(s.index.Length(c.Chunk)):
		return true
	case b.visit != nil: // the chunk would be evicted before the rest of it is needed, and would be read again each time
		return false
	}
	return s.wholePays(c.Chunk, bytesOf(c), int64(len(c.Ranges)))
}

// first decides how to read a reader's first batch. Nothing was prefetched for that batch, so it
// would wait for whole chunks although it needs only a small part of them. If reading the ranges of
// its samples is faster (policy.First), first moves the missing chunks from whole to ranged. Chunks
// on disk, compressed chunks and chunks of many objects stay whole.
func (s *Source) first(b *request, whole, ranged []batch.ChunkRanges) (rest, moved []batch.ChunkRanges) {
	p := s.path
	f := policy.First{
		Ahead: p.ownReads.Load(), Own: min(p.gate.places(), p.first.places()), // the limit of p.gate may grow, but that of p.first does not
		Part: p.cfg.PartSize, Places: p.gate.places(), Cost: p.rates.cost(),
	}
	rest, moved = make([]batch.ChunkRanges, 0, len(whole)), ranged
	for _, c := range whole {
		if at := s.whereIs(c.Chunk); at == inMemory || at == fromDisk || s.index.Codec(c.Chunk) != codec.None || s.objects(c.Chunk) > 1 {
			rest = append(rest, c)
			continue
		}
		moved = append(moved, c)
		f.Bytes, f.Stored = f.Bytes+bytesOf(c), f.Stored+s.index.Chunk(c.Chunk).Stored
		end := -1
		for _, r := range c.Ranges {
			if int(r.Offset) != end {
				f.Reads++
			}
			end = int(r.Offset + r.Length)
		}
	}
	f.Reads = max(f.Reads, (f.Bytes+f.Part-1)/f.Part)
	if !f.ByRanges() {
		return whole, ranged
	}
	b.visit.Alone()
	b.visit.ownReads.Add(f.Reads)
	p.ownReads.Add(f.Reads)
	return rest, moved
}

// worth reports whether to read a chunk whole if readers will use the given number of its samples
// while it is in memory. The cost of the unneeded bytes must be below the cost of one store read
// for each sample.
func (s *Source) worth(chunk int, samples uint64) bool {
	c := s.index.Chunk(chunk)
	samples = min(samples, uint64(c.Samples))
	if c.Codec != codec.None || samples == uint64(c.Samples) {
		return true
	}
	return s.wholePays(chunk, int64(float64(c.Length)*float64(samples)/float64(c.Samples)), int64(samples))
}

// wholePays reports whether reading an uncompressed chunk whole costs less than reading the given
// number of its samples, of the given number of bytes, by their ranges.
func (s *Source) wholePays(chunk int, bytes, samples int64) bool {
	return policy.WholePays(s.index.Chunk(chunk).Stored, int64(s.objects(chunk)), bytes, samples, s.path.rates.cost())
}

func bytesOf(c batch.ChunkRanges) (n int64) {
	for _, r := range c.Ranges {
		n += int64(r.Length)
	}
	return n
}

// nearest is the nearest tier that has a chunk now.
type nearest uint8

const (
	inMemory nearest = iota
	coming           // being loaded into memory
	fromDisk         // on disk, and the disk tier is used
	notHere          // at a peer or only in the store
)

// whereIs returns where a chunk is now. It queries the disk only for chunks that are not in memory.
func (s *Source) whereIs(chunk int) nearest {
	switch {
	case s.chunks.Resident(chunk):
		return inMemory
	case s.chunks.Contains(chunk):
		return coming
	case s.path.disk.answers(s, chunk):
		return fromDisk
	}
	return notHere
}

// hidden reports whether a chunk may be in memory, or being loaded, although the source's table
// does not list it: another dataset or generation has loaded the same chunk. Cache.Find adds it to
// the table, under the cache's lock.
func (s *Source) hidden(chunk int) bool { return s.number == 0 && !s.chunks.Contains(chunk) }

// finds reports whether a chunk is in memory or being loaded, for this source or another one.
func (s *Source) finds(chunk int) bool {
	if s.hidden(chunk) {
		s.path.cache.Find(s.chunks, chunk)
	}
	return s.chunks.Contains(chunk)
}

func (s *Source) key(chunk int) key {
	c := s.index.Chunk(chunk)
	return key{s.number, c.Digest, uint32(c.Length), c.CRC32C} // no chunk is longer than 1 GiB
}

// Chunks returns the number of chunks of the dataset. Chunks, Cost and Resident implement
// lookahead.Dataset.
func (s *Source) Chunks() int { return s.index.Chunks() }

// Cost returns the number of bytes of memory that a chunk takes.
func (s *Source) Cost(chunk int) int64 { return chunkcache.Cost(s.index.Length(chunk)) }

// Resident reports whether the table of chunks lists a chunk as in memory or being loaded. It takes
// no lock.
func (s *Source) Resident(chunk int) bool { return s.chunks.Contains(chunk) }

// objects returns the number of objects, or of ranges of one object, that a chunk consists of.
// Reading the chunk whole takes one store read for each of them, or fewer if one read covers
// several close ranges.
func (s *Source) objects(chunk int) int { return s.index.ExtentCount(chunk) }
