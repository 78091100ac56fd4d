package datapath

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

// asked counts what went between this gateway and others.
type asked struct {
	reads, bytes, failed, lies, servedReads, servedBytes, former atomic.Uint64
}

func (a *asked) fill(s *Stats) {
	s.PeerReads, s.PeerBytes, s.PeerFailed, s.PeerLies = a.reads.Load(), a.bytes.Load(), a.failed.Load(), a.lies.Load()
	s.PeerServedReads, s.PeerServedBytes, s.FormerChunks = a.servedReads.Load(), a.servedBytes.Load(), a.former.Load()
}

// longThink is the longest time between two batches that is told: whoever needs longer is in no
// hurry.
const longThink = time.Hour

// forPeers says who reads a batch, so that those who are asked for a part of it can fetch ahead.
func (b *batch) forPeers(at shuffle.Cursor, v *lookahead.Visit) {
	b.number = v.Number()
	b.reader = &peer.Reader{Params: at.Plan.Params(), Epoch: at.Epoch.Number(), Cursor: at, Think: min(v.Think(), longThink)}
	b.reader.Plan, b.reader.Cursor.Epoch = nil, nil
}

// of returns the part of a batch that some of its chunks are.
func (b *batch) of(chunks []chunkindex.ChunkRanges) *batch {
	part := *b
	part.chunks, part.bytes = chunks, 0
	for _, c := range chunks {
		part.bytes += bytesOf(c)
	}
	return &part
}

// far is the part of a batch that other gateways are asked for: each sample once, in order of
// place, none without bytes.
type far struct {
	*batch
	twins [][2]int // segments that are the same sample: the other one, and the one that is asked for
}

// all returns the numbers of all chunks.
func (b *batch) all() []int {
	which := make([]int, len(b.chunks))
	for i := range which {
		which[i] = i
	}
	return which
}

// split divides a batch into what this gateway brings itself and what it asks others for: what they
// own and is not in memory here, nor on its way there, nor on disk. far is nil where they are asked
// for nothing.
func (s *Source) split(b *batch) (near *batch, f *far) {
	if s.name == "" {
		return b, nil
	}
	var here, there []chunkindex.ChunkRanges
	for i, c := range b.chunks {
		switch {
		case s.elsewhere(c.Chunk) == "":
			if there != nil {
				here = append(here, c)
			}
			continue
		case there == nil:
			here = append(here, b.chunks[:i]...)
		}
		there = append(there, c)
	}
	if there == nil {
		return b, nil
	}
	f = &far{}
	for i, c := range there {
		there[i].Ranges = f.once(c.Ranges)
	}
	f.batch = b.of(there)
	return b.of(here), f
}

// elsewhere returns the member that is to be asked for a chunk, "" if none is.
func (s *Source) elsewhere(chunk int) string {
	if s.whereIs(chunk) != notHere {
		return ""
	}
	return s.owner(chunk)
}

// once leaves one range of each sample, in order of place.
func (f *far) once(ranges []chunkindex.Range) []chunkindex.Range {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b chunkindex.Range) int { return cmp.Or(byPlace(a, b), cmp.Compare(a.Seq, b.Seq)) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && out[n-1].Offset == r.Offset && out[n-1].Length == r.Length {
			f.twins = append(f.twins, [2]int{r.Seq, out[n-1].Seq})
		} else {
			out = append(out, r)
		}
	}
	return out
}

// byPlace compares the places of two samples in a chunk.
func byPlace(a, b chunkindex.Range) int {
	return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Length, b.Length))
}

// peerPart is the part of the time that a request has left which one question to a peer may take:
// what is after it needs time too.
const peerPart = 2

// asker is who asks peers for samples, and where these go.
type asker struct {
	source   *Source
	reader   *peer.Reader
	segments [][]byte // by Seq
}

// query asks for samples of some chunks, which are in ascending order, and says where each range
// goes.
func (a *asker) query(chunks []chunkindex.ChunkRanges) (*peer.Query, [][]byte) {
	s := a.source
	q := &peer.Query{
		Dataset: s.name, Generation: s.index.Generation(), Reader: a.reader, Chunks: make([]peer.Wanted, 0, len(chunks)),
	}
	var dst [][]byte
	for _, c := range chunks {
		for _, r := range c.Ranges {
			dst = append(dst, a.segments[r.Seq])
		}
		q.Chunks = append(q.Chunks, peer.Wanted{Chunk: c.Chunk, Digest: s.index.Chunk(c.Chunk).Digest, Ranges: c.Ranges})
	}
	return q, dst
}

// partOf returns a context that ends when a part of the time is gone that is left.
func partOf(ctx context.Context) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(until)/peerPart)
}

// check compares the checksum of each sample that a peer has sent with the index. It returns how many
// bytes are right, and which samples are wrong.
func (a *asker) check(chunks []chunkindex.ChunkRanges) (n int64, wrong []chunkindex.ChunkRanges) {
	for _, c := range chunks {
		var bad []chunkindex.Range
		for _, r := range c.Ranges {
			if checksum(a.segments[r.Seq]) == r.CRC32C {
				n += int64(r.Length)
			} else {
				bad = append(bad, r)
			}
		}
		if bad != nil {
			wrong = append(wrong, chunkindex.ChunkRanges{Chunk: c.Chunk, Ranges: bad})
		}
	}
	return n, wrong
}

// ask asks the members that own chunks, side by side, but for those in asked, which have been asked already. It
// returns how many bytes have come, and which samples have not. Once this gateway is the next choice, or
// mostAsked members were asked, here brings the samples; nil: they are lost.
func (a *asker) ask(ctx context.Context, chunks []chunkindex.ChunkRanges, here bring, asked ...string) (bytes int64, lost []chunkindex.ChunkRanges) {
	groups := map[string][]chunkindex.ChunkRanges{} // by member
	for _, c := range chunks {
		m := ""
		switch {
		case len(asked) == 0:
			m = a.source.owner(c.Chunk)
		case len(asked) < mostAsked && ctx.Err() == nil:
			m = a.source.path.cfg.Peers.Owner(a.source.peerChunk(c.Chunk), asked...)
		}
		groups[m] = append(groups[m], c)
	}
	var mu sync.Mutex // guards bytes and lost
	var running sync.WaitGroup
	for m, group := range groups {
		running.Go(func() {
			n, l := int64(0), group
			switch {
			case m != "":
				n, l = a.question(ctx, group, append(asked[:len(asked):len(asked)], m)...)
			case here != nil:
				n, l = here(ctx, group)
			}
			mu.Lock()
			defer mu.Unlock()
			bytes, lost = bytes+n, append(lost, l...)
		})
	}
	running.Wait()
	slices.SortFunc(lost, func(a, b chunkindex.ChunkRanges) int { return a.Chunk - b.Chunk })
	return bytes, lost
}

// bring brings samples, and returns how many bytes are there, and what is not.
type bring = func(ctx context.Context, chunks []chunkindex.ChunkRanges) (bytes int64, lost []chunkindex.ChunkRanges)
