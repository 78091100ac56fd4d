package datapath

import (
	"context"
	"slices"

	"github.com/millrace-data/millrace/chunkindex"
)

// takeCarried serves what peers have sent along before, and leaves the rest to be asked for.
func (g *gathering) takeCarried() {
	if g.far.number == 0 {
		return
	}
	carry, id := g.source.path.carry, rankAt(g.source, g.at)
	carry.pass(id, g.at)
	f := g.far
	g.asked = far{f.of(f.chunks), f.owners, f.twins}
	chunks, owners := f.chunks[:0:0], f.owners[:0:0]
	f.bytes = 0
	for i, c := range f.chunks {
		var rest []chunkindex.Range
		for _, r := range c.Ranges {
			b, l := carry.take(id, sampleAt{c.Chunk, r.Offset})
			if l == nil {
				rest = append(rest, r)
				continue
			}
			g.segments[r.Seq] = b
			g.carried = append(g.carried, l)
		}
		if len(rest) > 0 {
			c.Ranges = rest
			chunks, owners = append(chunks, c), append(owners, f.owners[i])
			f.bytes += bytesOf(c)
		}
	}
	f.chunks, f.owners = chunks, owners
}

// laterSample is a sample that the reader comes for in one of its next batches.
type laterSample struct {
	chunk int
	chunkindex.Range
	first uint64 // where that batch begins
	dst   []byte
}

// later lists by member what the reader's next batches need of chunks that they are asked for now, or have in use already: for
// those nobody has to wait. It goes on as long as some question has room for more.
func (g *gathering) later(ctx context.Context, members []string) map[string][]laterSample {
	s, carry := g.source, g.source.path.carry
	if g.far.number == 0 || carry.query <= 0 || len(members) == 0 {
		return nil
	}
	l := &looking{g: g, members: members, room: map[string]int64{}, out: map[string][]laterSample{}, owners: map[int]string{}, id: rankAt(s, g.at)}
	for _, m := range members {
		l.room[m] = carry.query
	}
	for i, c := range g.far.chunks {
		l.owners[c.Chunk] = g.far.owners[i]
	}
	var samples []uint64
	for n := uint64(1); n <= carriedAhead && len(l.room) > 0; n++ {
		var ok bool
		if samples, ok = g.at.Later(samples[:0], n); !ok {
			break
		}
		for _, x := range samples {
			if !l.add(ctx, x, g.at.First+n*g.at.BatchSize) {
				return l.out
			}
		}
	}
	return l.out
}

// looking is one look at what a reader needs next.
type looking struct {
	g       *gathering
	id      rankID
	members []string
	room    map[string]int64 // bytes left, of the members that have some
	owners  map[int]string   // "": not to be asked for
	out     map[string][]laterSample
}

// add adds a sample if it is one to ask for, and reports whether the look goes on.
func (l *looking) add(ctx context.Context, sample, first uint64) bool {
	s := l.g.source
	chunk := s.index.ChunkOf(sample)
	member, known := l.owners[chunk]
	if !known {
		member = l.inUse(chunk)
		l.owners[chunk] = member
	}
	room, ok := l.room[member]
	if !ok {
		return true
	}
	t, err := s.index.Table(ctx, chunk)
	if err != nil {
		return false
	}
	i := sample - s.index.Chunk(chunk).First
	r := chunkindex.Range{Offset: t.Offset[i], Length: t.Length[i], CRC32C: t.CRC32C[i]}
	if r.Length == 0 || s.path.carry.has(l.id, sampleAt{chunk, r.Offset}) {
		return true
	}
	if room -= int64(r.Length) + carriedSample; room < 0 {
		delete(l.room, member)
		return true
	}
	l.room[member] = room
	l.out[member] = append(l.out[member], laterSample{chunk: chunk, Range: r, first: first})
	return true
}

// inUse returns the member that is to be asked for a chunk if it is one that is asked now, and its readers have begun with it.
func (l *looking) inUse(chunk int) string {
	g := l.g
	span, ok := g.at.Epoch.Next(uint64(chunk), g.at.First)
	if !ok || span.From+g.at.BatchSize > g.at.First {
		return ""
	}
	if m := g.source.elsewhere(g.at.Plan, chunk); slices.Contains(l.members, m) {
		return m
	}
	return ""
}

// along is what one question asks for beside what its batch needs; nil: nothing.
type along struct {
	g       *gathering
	load    *carried
	byChunk map[int][]laterSample
	kept    bool
}

// along takes memory for what is to be sent along, if there is some that nobody needs.
func (g *gathering) along(later []laterSample) *along {
	var bytes int64
	for _, l := range later {
		bytes += int64(l.Length)
	}
	if bytes == 0 {
		return nil
	}
	load := g.source.path.carry.room(bytes + carriedSample*int64(len(later)))
	if load == nil {
		return nil
	}
	load.number, load.epoch = g.far.number, g.at.Epoch.Number()
	load.first, load.last = g.at.First, later[len(later)-1].first
	a := &along{g: g, load: load, byChunk: map[int][]laterSample{}}
	buf := load.buffer.Bytes()
	for _, l := range later {
		l.dst, buf = buf[:l.Length:l.Length], buf[l.Length:]
		a.byChunk[l.chunk] = append(a.byChunk[l.chunk], l)
	}
	return a
}

func (a *along) of(chunk int) []laterSample {
	if a == nil {
		return nil
	}
	return a.byChunk[chunk]
}

// others lists the chunks that are asked for only for later.
func (a *along) others(chunks []chunkindex.ChunkRanges) (others []chunkindex.ChunkRanges) {
	if a == nil {
		return nil
	}
	for c := range a.byChunk {
		if !slices.ContainsFunc(chunks, func(o chunkindex.ChunkRanges) bool { return o.Chunk == c }) {
			others = append(others, chunkindex.ChunkRanges{Chunk: c})
		}
	}
	return others
}

// keep takes in what has come and is what the index says, and reports whether all of it is.
func (a *along) keep() (right bool) {
	if a == nil {
		return true
	}
	right = true
	for chunk, list := range a.byChunk {
		for _, l := range list {
			if checksum(l.dst) == l.CRC32C {
				a.load.samples[sampleAt{chunk, l.Offset}] = l.dst
			} else {
				right = false
			}
		}
	}
	a.kept = true
	a.g.source.path.carry.keep(rankAt(a.g.source, a.g.at), a.load)
	return right
}

// end gives the memory back if nothing has come.
func (a *along) end() {
	if a != nil && !a.kept {
		a.load.samples = nil
		a.g.source.path.carry.keep(rankID{}, a.load)
	}
}
