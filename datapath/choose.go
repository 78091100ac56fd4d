// This file says where the chunks of a batch are, which of them are read as a whole, and which by
// the ranges of their samples.

package datapath

import (
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
)

// chooseReads says which chunks are brought as a whole and which sample by sample.
func (s *Source) chooseReads(b *request) (whole, ranged []batch.ChunkRanges) {
	whole = b.chunks // without a copy, where all are
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
		// Each sample costs a read, alone as with all the others. So a batch waits for its own samples only, and the chunk comes
		// ahead of need.
		return at == inMemory
	}
	return at == inMemory || at == coming || s.used(b, c)
}

// used reports whether enough of a chunk will be used while it stays in memory, by what the plans say.
func (s *Source) used(b *request, c batch.ChunkRanges) bool {
	switch {
	case s.name != "" && s.owner(c.Chunk) != "":
		// Another member keeps the chunk. But a peer that asks here may know better, or the owner fails, and then more will be
		// asked for: where that takes nothing from readers, the chunk is kept here until the views agree.
		return b.origin != fromRank && (b.fits || s.path.spares(s.index.Length(c.Chunk)))
	case b.visit != nil && !b.visit.ComesFor(c.Chunk):
		// It is at home with ranks that read at another gateway, which brings it. Other samples of it come here in each epoch.
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
	case b.visit != nil: // it would be gone before the rest of it is wanted, and be read again each time
		return false
	}
	return s.wholePays(c.Chunk, bytesOf(c), int64(len(c.Ranges)))
}

// first decides what a reader's first batch waits for. Nothing was fetched ahead of it, so it would wait for whole chunks, of which it
// needs little. If the samples' own ranges come sooner (policy.First), first moves the chunks that are missing from whole to
// ranged. Chunks on disk, compressed ones and those of many objects stay whole.
func (s *Source) first(b *request, whole, ranged []batch.ChunkRanges) (rest, moved []batch.ChunkRanges) {
	p := s.path
	f := policy.First{
		Ahead: p.ownReads.Load(), Own: min(p.gate.places(), p.first.places()), // these do not grow with those of the gate
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

// worth reports whether a chunk is read as a whole when so many of its samples are still wanted while it stays: the bytes
// that nobody wants must cost less than the reads that the wanted samples would take one by one.
func (s *Source) worth(chunk int, samples uint64) bool {
	c := s.index.Chunk(chunk)
	samples = min(samples, uint64(c.Samples))
	if c.Codec != codec.None || samples == uint64(c.Samples) {
		return true
	}
	return s.wholePays(chunk, int64(float64(c.Length)*float64(samples)/float64(c.Samples)), int64(samples))
}

// wholePays compares the reads of a whole chunk that is not compressed with those of some samples by themselves, of so many bytes.
func (s *Source) wholePays(chunk int, bytes, samples int64) bool {
	return policy.WholePays(s.index.Chunk(chunk).Stored, int64(s.objects(chunk)), bytes, samples, s.path.rates.cost())
}

func bytesOf(c batch.ChunkRanges) (n int64) {
	for _, r := range c.Ranges {
		n += int64(r.Length)
	}
	return n
}

// nearest is the nearest place that has a chunk now.
type nearest uint8

const (
	inMemory nearest = iota
	coming           // on its way to memory
	fromDisk         // it is on disk, and the disk answers for it
	notHere          // at a peer, or in the store only
)

// whereIs returns where a chunk is now. It asks the disk only for what is not in memory.
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

// hidden reports whether a chunk that the table of chunks does not find may be there all the same: another dataset or
// generation has brought it, or brings it. Cache.Find lets the table find it, under the cache's lock.
func (s *Source) hidden(chunk int) bool { return s.number == 0 && !s.chunks.Contains(chunk) }

// finds reports whether a chunk is in memory, or on its way there, whoever has brought it.
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

// Chunks returns how many chunks the dataset has. Chunks, Cost and Resident are what the table of readers asks of it.
func (s *Source) Chunks() int { return s.index.Chunks() }

// Cost returns the bytes of memory that a chunk takes.
func (s *Source) Cost(chunk int) int64 { return chunkcache.Cost(s.index.Length(chunk)) }

// Resident reports whether a chunk is in memory, or on its way there, as far as the table of chunks knows. It takes no lock.
func (s *Source) Resident(chunk int) bool { return s.chunks.Contains(chunk) }

// objects returns of how many objects, or ranges of one, a chunk is: so many reads bring it as a whole, but for ranges that lie so close
// that one read brings them.
func (s *Source) objects(chunk int) int { return s.index.ExtentCount(chunk) }
